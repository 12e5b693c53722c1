package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// layout is how blocks of x, rounded, and of weights as words lie. A block of x is its integers as words in the order in which codes are taken
// out of their bytes, with mins the sums of its groups, and eight times its scale. A block of weights is words, codes times
// the scales of their groups, with mins eight of them, and eight times the factor of words, and that of mins.
type layout struct {
	name    string
	weights int // of a block
	// order makes of four vectors of int32, 32 columns, two vectors of words, which are among them.
	order func(g *generator, v []reg.VecPhysical) (a, b reg.VecPhysical)
	mins  bool // weights are d·scale·code - dmin·min
}

var (
	of32  = layout{name: "Of32", weights: 32, order: inOrder}
	of256 = layout{name: "Of256", weights: 256, order: byHalves}
	mins  = layout{name: "WithMins", weights: 256, order: evenAndOdd, mins: true}
)

const (
	full  = 1<<14 - 1 // of a rounded x: 32 products of a lane with weights of 13 bits have 32 bits
	group = 32        // weights
	eight = 32        // bytes of a vector
)

// more is the bytes of a block between its words and its factor.
func (l layout) more() int {
	if l.mins {
		return eight
	}
	return 0
}

// xBytes and wordBytes are those of a block.
func (l layout) xBytes() int { return 2*l.weights + l.more() + eight }

func (l layout) wordBytes() int { return 2*l.weights + 2*l.more() + eight }

// round turns float32 into blocks of integers. What is not finite makes scales that are NaN.
func round(g *generator, l layout) {
	begin(g, "round"+l.name+g.name, "out *byte, x *float32, blocks int",
		fmt.Sprintf("sets out, [blocks, %d], to blocks of %d columns of x as integers.", l.xBytes(), l.weights))
	out, x, blocks := g.pointer("out"), g.pointer("x"), g.pointer("blocks")
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
	g.VMOVUPS(v, at(out, 2*l.weights+l.more()))
	for i := range l.weights / group {
		parts := g.vecs(1, 5)
		for j, p := range parts[:4] {
			g.VMULPS(at(x, 4*(group*i+j*g.lanes)), inv, p)
			g.VCVTPS2DQ(p, p)
		}
		a, b := l.order(g, parts)
		g.VMOVDQU(a.AsY(), at(out, 2*group*i))
		g.VMOVDQU(b.AsY(), at(out, 2*group*i+eight))
		if l.mins {
			ones, sum := g.global(words("ones", 1)), g.vec(6+i)
			g.VPMADDWD(ones, a, sum)
			g.VPMADDWD(ones, b, b)
			g.VPADDD(b, sum, sum)
		}
	}
	if l.mins { // the sums of eight vectors' lanes
		s := g.vecs(6, 8)
		for _, pair := range [][2]int{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {4, 6}} {
			g.VPHADDD(s[pair[1]], s[pair[0]], s[pair[0]])
		}
		g.VPERM2I128(operand.U8(0x20), s[4], s[0], s[1])
		g.VPERM2I128(operand.U8(0x31), s[4], s[0], s[0])
		g.VPADDD(s[1], s[0], s[0])
		g.VMOVDQU(s[0].AsY(), at(out, 2*l.weights))
	}
	g.ADDQ(operand.U32(4*l.weights), x)
	g.ADDQ(operand.U32(l.xBytes()), out)
	g.DECQ(blocks)
	g.JNZ(operand.LabelRef("blocks"))
	g.VZEROUPPER()
	g.RET()
}

// words is a constant of words.
func words(name string, word int) constant {
	return constant{name, every(uint32(uint16(word)) * 0x10001)}
}

// pack makes words of two vectors of int32, in their order.
func (g *generator) pack(a, b reg.VecPhysical) {
	g.VPACKSSDW(b, a, a)
	g.VPERMQ(operand.U8(0xd8), a, a)
}

func inOrder(g *generator, v []reg.VecPhysical) (a, b reg.VecPhysical) {
	g.pack(v[0], v[1])
	g.pack(v[2], v[3])
	return v[0], v[2]
}

// byHalves is the order of what VPUNPCKLBW and VPUNPCKHBW take out of 32 bytes.
func byHalves(g *generator, v []reg.VecPhysical) (a, b reg.VecPhysical) {
	g.pack(v[0], v[2])
	g.pack(v[1], v[3])
	return v[0], v[1]
}

// evenAndOdd is the lower bytes of words, and the upper ones.
func evenAndOdd(g *generator, v []reg.VecPhysical) (a, b reg.VecPhysical) {
	for i := 0; i < 4; i += 2 {
		g.VSHUFPS(operand.U8(0x88), v[i+1], v[i], v[4])
		g.VSHUFPS(operand.U8(0xdd), v[i+1], v[i], v[i+1])
		g.VPERMQ(operand.U8(0xd8), v[4], v[i])
		g.VPERMQ(operand.U8(0xd8), v[i+1], v[i+1])
	}
	g.pack(v[0], v[2])
	g.pack(v[1], v[3])
	return v[0], v[1]
}
