package main

import (
	"fmt"
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products in integers: a block of x becomes integers of 15 bits and a scale, codes of weights are integers anyway, and sums of a
// block's products are exact. They are those of eight lanes, which become float32 once a block.

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

// format is a type of weights as files store them: rows of blocks.
type format struct {
	name string
	layout
	bytes     int // of a block
	turn      int // weights that codes hands over at once
	scratch   int // bytes that prepare may write
	constants []constant
	// prepare takes the scales of the block at m, and leaves mins in free[6].
	prepare func(d *dots, m func(disp int) operand.Mem, scratch operand.Mem)
	// codes hands over the vectors of words of a turn in the order of the layout, each in a register that may be changed.
	codes func(d *dots, m func(disp int) operand.Mem, turn int, each func(reg.VecPhysical))
	// scale multiplies int32, the products of a group of 32 weights, by the group's scales; scaleWords does that with its words.
	scale, scaleWords func(d *dots, v reg.VecPhysical, scratch operand.Mem, group int)
	// factor sets a vector to the block's scale, or with mins to theirs.
	factor func(d *dots, m func(disp int) operand.Mem, mins bool, to reg.VecPhysical)
}

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

// add adds to a sum of float32 the integers of a block times factors.
func (g *generator) add(integers, factors, sum reg.VecPhysical, less bool) {
	g.VCVTDQ2PS(integers, integers)
	if less {
		g.VFNMADD231PS(factors, integers, sum)
	} else {
		g.VFMADD231PS(factors, integers, sum)
	}
}

// integerRow is the product of one row of x with rows of weights.
func integerRow(g *generator, f format) {
	begin(g, "row"+f.name+g.name, "out *float32, x, w *byte, stride, blocks int",
		fmt.Sprintf("sets out, [%d], to the products of x, rounded, with %d rows of weights as %s, stride bytes apart, of that many blocks of %d.",
			together, together, f.name, f.weights))
	d := &dots{generator: g}
	x, stride := g.pointer("x"), g.pointer("stride")
	rows := g.walk(g.pointer("w"), stride, together)
	next := g.GP64() // what follows these rows
	g.LEAQ(operand.Mem{Base: rows.bases[0], Index: stride, Scale: together}, next)
	ahead := g.walk(next, stride, together)
	blocks := g.pointer("blocks")
	sums, all, a := g.vecs(0, together), g.vec(together), g.vec(together+1)
	d.start(f, together+2)
	for _, s := range sums {
		g.zero(s)
	}
	scratch := d.scratch(f.scratch)
	g.Label("blocks")
	for r := range together {
		for line := 0; line < f.bytes; line += 64 {
			g.PREFETCHT0(ahead.at(r, line))
		}
		m := at2(rows, r)
		f.prepare(d, m, scratch)
		j := 0
		for turn := range f.weights / f.turn {
			f.codes(d, m, turn, func(v reg.VecPhysical) {
				into, i := a, j/2
				if i == 0 {
					into = all
				}
				if j++; j%2 == 1 {
					g.VPMADDWD(at(x, eight*(j-1)), v, into)
					return
				}
				g.VPMADDWD(at(x, eight*(j-1)), v, v)
				g.VPADDD(v, into, into)
				if f.scale != nil {
					f.scale(d, into, scratch, i)
				}
				if i > 0 {
					g.VPADDD(into, all, all)
				}
			})
		}
		f.factor(d, m, false, a)
		g.VMULPS(at(x, 2*f.weights+f.more()), a, a)
		g.add(all, a, sums[r], false)
		if f.mins {
			g.VPMULLD(at(x, 2*f.weights), d.free[6], all)
			f.factor(d, m, true, a)
			g.VMULPS(at(x, 2*f.weights+f.more()), a, a)
			g.add(all, a, sums[r], true)
		}
	}
	for _, p := range append(rows.bases, ahead.bases...) {
		g.ADDQ(operand.U32(f.bytes), p)
	}
	g.ADDQ(operand.U32(f.xBytes()), x)
	g.DECQ(blocks)
	g.JNZ(operand.LabelRef("blocks"))
	out := g.pointer("out")
	g.fold4(sums)
	g.VMOVUPS(sums[0].AsX(), at(out, 0))
	g.VZEROUPPER()
	g.RET()
}

// integerWords sets words to the weights of blocks.
func integerWords(g *generator, f format) {
	begin(g, "words"+f.name+g.name, "out, w *byte, blocks int",
		fmt.Sprintf("sets out, [blocks, %d], to blocks of %d weights as words, of weights as %s.", f.wordBytes(), f.weights, f.name))
	d := &dots{generator: g}
	out, w, blocks := g.pointer("out"), g.pointer("w"), g.pointer("blocks")
	d.start(f, 1)
	m, scratch := at2(rowPointers{bases: []reg.GPVirtual{w}}, 0), d.scratch(f.scratch)
	g.Label("blocks")
	f.prepare(d, m, scratch)
	i := 0
	for turn := range f.weights / f.turn {
		f.codes(d, m, turn, func(v reg.VecPhysical) {
			if f.scaleWords != nil {
				f.scaleWords(d, v, scratch, i/2)
			}
			g.VMOVDQU(v.AsY(), at(out, eight*i))
			i++
		})
	}
	v := g.vec(0)
	if f.mins {
		g.VMOVDQU(d.free[6].AsY(), at(out, 2*f.weights))
		f.factor(d, m, true, v)
		g.VMOVUPS(v, at(out, 2*f.weights+2*eight))
	}
	f.factor(d, m, false, v)
	g.VMOVUPS(v, at(out, 2*f.weights+f.more()))
	g.ADDQ(operand.U32(f.bytes), w)
	g.ADDQ(operand.U32(f.wordBytes()), out)
	g.DECQ(blocks)
	g.JNZ(operand.LabelRef("blocks"))
	g.VZEROUPPER()
	g.RET()
}

// integerTile is the product of many rows with weights as words, the sums of whose lanes stay apart for columns to come. It adds up what
// integerRow does, in the same order.
func integerTile(g *generator, l layout) {
	begin(g, "tile"+l.name+g.name, "sums *float32, x *byte, xStride int, w *byte, wStride, rows, blocks int",
		fmt.Sprintf("adds to sums, [rows, %d, %d], the products of rows of x, rounded, with %d of weights as words, in blocks of %d.", together, g.lanes, together, l.weights),
		"Strides are in bytes.")
	sums, x, xStride := g.pointer("sums"), g.pointer("x"), g.pointer("xStride")
	w, wStride, rows := g.pointer("w"), g.pointer("wStride"), g.pointer("rows")
	for _, m := range []int{3, 2, 1} { // rows whose sums have registers
		integerRows(g, l, m, sums, x, xStride, w, wStride, rows)
	}
	g.VZEROUPPER()
	g.RET()
}

// integerRows takes m rows at a time while there are as many.
func integerRows(g *generator, l layout, m int, sums, x, xStride, w, wStride, rows reg.GPVirtual) {
	label := func(name string) operand.LabelRef { return operand.LabelRef(fmt.Sprintf("%s%d", name, m)) }
	all, free := g.vecs(0, m*together), g.vecs(12, 4)
	const step = 4 // vectors
	g.Label(string(label("rows")))
	g.CMPQ(rows, operand.U32(m))
	g.JL(label("fewer"))
	from, of, left := g.walk(x, xStride, m), g.walk(w, wStride, together), g.pointer("blocks")
	advance := func(x, w int) {
		for _, base := range from.bases {
			g.ADDQ(operand.U32(x), base)
		}
		for _, base := range of.bases {
			g.ADDQ(operand.U32(w), base)
		}
	}
	g.Label(string(label("blocks")))
	for _, v := range all {
		g.zero(v)
	}
	vectors, inner := 2*l.weights/eight, g.GP64()
	if vectors > step {
		g.MOVQ(operand.U32(vectors/step), inner)
		g.Label(string(label("steps")))
	}
	for i := range min(vectors, step) {
		for c := range together {
			g.VMOVDQU(of.at(c, eight*i), free[0].AsY())
			for r := range m {
				product := free[1+r]
				g.VPMADDWD(from.at(r, eight*i), free[0], product)
				g.VPADDD(product, all[r*together+c], all[r*together+c])
			}
		}
	}
	end := 2 * l.weights
	if vectors > step {
		advance(step*eight, step*eight)
		g.DECQ(inner)
		g.JNZ(label("steps"))
		end = 0
	}
	for r := range m {
		scale, by, sum, mins := free[0], free[1], free[2], free[3]
		g.VMOVUPS(from.at(r, end+l.more()), scale)
		for c := range together {
			i := r*together + c
			g.VMOVUPS(at(sums, 4*i*g.lanes), sum)
			g.VMULPS(of.at(c, end+l.more()), scale, by)
			g.add(all[i], by, sum, false)
			if l.mins {
				g.VMOVDQU(of.at(c, end), mins.AsY())
				g.VPMULLD(from.at(r, end), mins, mins)
				g.VMULPS(of.at(c, end+2*eight), scale, by)
				g.add(mins, by, sum, true)
			}
			g.VMOVUPS(sum, at(sums, 4*i*g.lanes))
		}
	}
	advance(l.xBytes()-2*l.weights+end, l.wordBytes()-2*l.weights+end)
	g.DECQ(left)
	g.JNZ(label("blocks"))
	next := g.GP64()
	g.IMUL3Q(operand.U32(m), xStride, next)
	g.ADDQ(next, x)
	g.ADDQ(operand.U32(4*m*together*g.lanes), sums)
	g.SUBQ(operand.U32(m), rows)
	g.JMP(label("rows"))
	g.Label(string(label("fewer")))
}
