package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// layout is how blocks of x, rounded, and of weights as words lie. A block of x is its integers as bytes, for one row of x, or as words, for
// many: the even columns of each group and then the odd ones. Blocks of 256 have the sums of 16 columns each after them, as words, and all
// end with the scale, repeated eight times. A block of weights is words in the same order, codes times the scales of their groups, with mins sixteen of them, and
// the factor of words, repeated eight times, and so that of mins.
type layout struct {
	name    string
	weights int  // of a block
	mins    bool // weights are d·scale·code - dmin·min
}

var (
	of32  = layout{name: "Of32", weights: 32}
	of256 = layout{name: "Of256", weights: 256}
	mins  = layout{name: "WithMins", weights: 256, mins: true}
)

const (
	full  = 127 // of a rounded x
	group = 32  // weights
	eight = 32  // bytes of a vector
)

// sums is the bytes of the sums of a block of x.
func (l layout) sums() int {
	if l.weights == 256 {
		return eight
	}
	return 0
}

// xBytes and wordBytes are those of a block, of x with integers of some bytes.
func (l layout) xBytes(integer int) int { return integer*l.weights + l.sums() + eight }

func (l layout) wordBytes() int {
	if l.mins {
		return 2*l.weights + 3*eight
	}
	return 2*l.weights + eight
}

// round turns float32 into blocks of integers of 1 or 2 bytes. What is not finite makes scales that are NaN.
func round(g *generator, l layout, integer int) {
	name := map[int]string{1: "bytes", 2: "integers"}[integer]
	begin(g, name+l.name+g.name, "out *byte, x *float32, blocks int",
		fmt.Sprintf("sets out, [blocks, %d], to blocks of %d columns of x as integers of %d bits.", l.xBytes(integer), l.weights, 8*integer))
	out, x, blocks := g.pointer("out"), g.pointer("x"), g.pointer("blocks")
	order := g.vec(15)
	g.VMOVDQU(g.global(constant{"inOrder", func(i int) uint32 { return uint32(i%2*4 + i/2) }}), order.AsY())
	g.Label("blocks")
	inv, largest, wrong, zero, v := g.vec(0), g.vec(1), g.vec(2), g.vec(3), g.vec(4)
	for _, r := range []reg.VecPhysical{largest, wrong, zero} {
		g.zero(r)
	}
	for i := 0; i < l.weights; i += g.lanes {
		g.VMOVUPS(at(x, 4*i), v)
		g.VFMADD231PS(zero, v, wrong)
		g.VANDPS(g.global(constant{"magnitude", every(0x7fffffff)}), v, v)
		g.VMAXPS(v, largest, largest)
	}
	low, other := largest.AsX(), v.AsX()
	g.VEXTRACTF128(operand.U8(1), largest.AsY(), other)
	g.VMAXPS(other, low, low)
	for _, swap := range []uint8{0x4e, 0xb1} {
		g.VPERMILPS(operand.U8(swap), low, other)
		g.VMAXPS(other, low, low)
	}
	g.VBROADCASTSS(low, largest)
	g.VMOVUPS(g.global(constant{"full", every(math.Float32bits(full))}), v)
	g.VDIVPS(largest, v, inv)
	g.VDIVPS(v, largest, v)
	const notLess = 0x1d
	g.VCMPPS(operand.U8(notLess), g.global(constant{"least", every(math.Float32bits(0x1p-100))}), largest, largest)
	g.VANDPS(largest, inv, inv)
	g.VANDPS(largest, v, v)
	g.VADDPS(wrong, v, v)
	g.VMOVUPS(v, at(out, integer*l.weights+l.sums()))
	for i := range l.weights / group {
		parts := g.vecs(1, 4)
		for j, p := range parts {
			g.VMULPS(at(x, 4*(group*i+j*g.lanes)), inv, p)
			g.VCVTPS2DQ(p, p)
		}
		all, even := parts[0], parts[1]
		g.VPACKSSDW(parts[1], parts[0], parts[0])
		g.VPACKSSDW(parts[3], parts[2], parts[2])
		g.VPACKSSWB(parts[2], parts[0], all)
		g.VPERMD(all, order, all)
		if l.sums() > 0 {
			g.VMOVDQU(g.global(bytesOf("ones8", func(int) byte { return 1 })), even.AsY())
			g.VPMADDUBSW(all, even, even)
			g.VPMADDWD(g.global(words("ones", 1)), even, g.vec(6+i))
		}
		if integer == 1 {
			g.VMOVDQU(all.AsY(), at(out, group*i))
		} else {
			g.evenAndOdd(all, even, true)
			g.VMOVDQU(even.AsY(), at(out, 2*group*i))
			g.VMOVDQU(all.AsY(), at(out, 2*group*i+eight))
		}
	}
	if l.sums() > 0 { // of halves of eight vectors' lanes
		s := g.vecs(6, 8)
		for _, pair := range [][2]int{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {4, 6}} {
			g.VPHADDD(s[pair[1]], s[pair[0]], s[pair[0]])
		}
		g.VPERM2I128(operand.U8(0x20), s[4], s[0], s[1])
		g.VPERM2I128(operand.U8(0x31), s[4], s[0], s[0])
		g.VPSLLD(operand.U8(16), s[0], s[0])
		g.VPBLENDW(operand.U8(0xaa), s[0], s[1], s[0])
		g.VMOVDQU(s[0].AsY(), at(out, integer*l.weights))
	}
	g.ADDQ(operand.U32(4*l.weights), x)
	g.ADDQ(operand.U32(l.xBytes(integer)), out)
	g.DECQ(blocks)
	g.JNZ(operand.LabelRef("blocks"))
	g.VZEROUPPER()
	g.RET()
}

// words is a constant of words.
func words(name string, word int) constant {
	return constant{name, every(uint32(uint16(word)) * 0x10001)}
}

// evenAndOdd makes words of the even bytes of a vector, and of the odd ones, which stay in it.
func (g *generator) evenAndOdd(v, even reg.VecPhysical, signed bool) {
	g.VPSLLW(operand.U8(8), v, even)
	if signed {
		g.VPSRAW(operand.U8(8), even, even)
		g.VPSRAW(operand.U8(8), v, v)
	} else {
		g.VPSRLW(operand.U8(8), even, even)
		g.VPSRLW(operand.U8(8), v, v)
	}
}
