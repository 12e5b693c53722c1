package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products in integers: a block of x becomes integers of 15 bits and a scale, codes of weights are integers anyway, and sums of a
// block's products are exact. They are those of eight lanes, which become float32 once a block.

// format is a type of weights as files store them: rows of blocks.
type format struct {
	name string
	layout
	bytes     int // of a block
	turn      int // weights that codes passes at once
	scratch   int // bytes that prepare may write
	constants []constant
	// prepare takes the scales of the block at m, and leaves mins in free[6].
	prepare func(d *dots, m func(disp int) operand.Mem, scratch operand.Mem)
	// codes passes the vectors of words of a turn in the order of the layout, each in a register that may be changed.
	codes func(d *dots, m func(disp int) operand.Mem, turn int, each func(reg.VecPhysical))
	// scale multiplies int32, the products of a group of 32 weights, by the group's scales; scaleWords does that with its words.
	scale, scaleWords func(d *dots, v reg.VecPhysical, scratch operand.Mem, group int)
	// factor sets a vector to the block's scale, or with mins to theirs.
	factor func(d *dots, m func(disp int) operand.Mem, mins bool, to reg.VecPhysical)
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
