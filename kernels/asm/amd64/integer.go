package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Products in integers: a block of x becomes integers of 8 bits and a scale, codes of weights are integers anyway, and sums of a
// block's products are exact. They are those of eight lanes, of which each has four columns of every group, and which become float32 once a block.

// format is a type of weights as files store them: rows of blocks.
type format struct {
	name string
	layout
	bytes     int  // of a block
	signed    bool // codes have signs
	scratch   int  // bytes that prepare may write
	constants []constant
	// prepare takes the scales of the block at m, and leaves mins in free[6].
	prepare func(d *dots, m func(disp int) operand.Mem, scratch operand.Mem)
	// codes passes the groups of a block, 32 bytes in the order of columns, each in a register that may be changed.
	codes func(d *dots, m func(disp int) operand.Mem, each func(reg.VecPhysical))
	// scale sets a vector to a group's scales, each of two columns, as words; nil: 1.
	scale func(d *dots, to reg.VecPhysical, scratch operand.Mem, group int)
	// factor sets a vector to the block's scale, and factorOfMins to theirs, where it is another one.
	factor, factorOfMins func(d *dots, m func(disp int) operand.Mem, to reg.VecPhysical)
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

// integerRow is the product of one row of x with rows of weights, one after the other: a processor sees that memory is read
// from its beginning to its end.
func integerRow(g *generator, f format) {
	const ahead = 8192 // bytes; a shorter distance hides less latency, a longer one no more
	begin(g, "row"+f.name+g.name, "out *float32, x, w *byte, stride, blocks, n int",
		fmt.Sprintf("sets out, [n], to the products of x, as bytes, with n rows of weights as %s, stride bytes apart, of that many blocks of %d.", f.name, f.weights))
	d := &dots{generator: g}
	out, w, stride, n := g.pointer("out"), g.pointer("w"), g.pointer("stride"), g.pointer("n")
	sum, all, a, scale := g.vec(0), g.vec(1), g.vec(2), g.vec(3)
	d.start(f, 4)
	scratch := d.scratch(f.scratch)
	row, x, blocks := g.GP64(), g.GP64(), g.GP64()
	m := at2(rowPointers{bases: []reg.GPVirtual{row}}, 0)
	g.Label("rows")
	g.zero(sum)
	g.Load(g.Param("x"), x)
	g.Load(g.Param("blocks"), blocks)
	g.MOVQ(w, row)
	g.Label("blocks")
	for line := 0; line < f.bytes; line += 64 {
		g.PREFETCHT1(at(row, ahead+line))
	}
	f.prepare(d, m, scratch)
	i := 0
	f.codes(d, m, func(v reg.VecPhysical) {
		columns := at(x, group*i)
		if f.signed {
			g.VMOVDQU(columns, a.AsY())
			g.VPSIGNB(v, a, a)
			g.VPABSB(v, v)
			g.VPMADDUBSW(a, v, v)
		} else {
			g.VPMADDUBSW(columns, v, v)
		}
		into := v
		if i == 0 {
			into = all
		}
		if f.scale == nil {
			g.VPMADDWD(g.global(words("ones", 1)), v, into)
		} else {
			f.scale(d, scale, scratch, i)
			g.VPMADDWD(scale, v, into)
		}
		if i++; i > 1 {
			g.VPADDD(v, all, all)
		}
	})
	ofX, ofMins := at(x, f.weights+f.sums()), a
	if f.factorOfMins == nil {
		f.factor(d, m, a)
		g.VMULPS(ofX, a, a)
	} else { // both are at the beginning
		ofMins = scale
		g.VMOVD(m(0), a.AsX())
		g.VCVTPH2PS(a.AsX(), a.AsX())
		g.VMULPS(ofX, a.AsX(), a.AsX())
		g.VMOVSHDUP(a.AsX(), scale.AsX())
		g.VBROADCASTSS(a.AsX(), a)
		g.VBROADCASTSS(scale.AsX(), scale)
	}
	g.add(all, a, sum, false)
	if f.mins {
		g.VPMADDWD(at(x, f.weights), d.free[6], all)
		g.add(all, ofMins, sum, true)
	}
	g.ADDQ(operand.U32(f.bytes), row)
	g.ADDQ(operand.U32(f.xBytes(1)), x)
	g.DECQ(blocks)
	g.JNZ(operand.LabelRef("blocks"))
	g.VHADDPS(sum, sum, sum) // in the order of fold4
	g.VHADDPS(sum, sum, sum)
	g.VEXTRACTF128(operand.U8(1), sum.AsY(), a.AsX())
	g.VADDSS(a.AsX(), sum.AsX(), sum.AsX())
	g.VMOVSS(sum.AsX(), at(out, 0))
	g.ADDQ(operand.U8(4), out)
	g.ADDQ(stride, w)
	g.DECQ(n)
	g.JNZ(operand.LabelRef("rows"))
	g.VZEROUPPER()
	g.RET()
}

// integerWords sets words to the weights of blocks.
func integerWords(g *generator, f format) {
	begin(g, "words"+f.name+g.name, "out, w *byte, blocks int",
		fmt.Sprintf("sets out, [blocks, %d], to blocks of %d weights as words, of weights as %s.", f.wordBytes(), f.weights, f.name))
	d := &dots{generator: g}
	out, w, blocks := g.pointer("out"), g.pointer("w"), g.pointer("blocks")
	even, scale := g.vec(0), g.vec(1)
	d.start(f, 2)
	m, scratch := at2(rowPointers{bases: []reg.GPVirtual{w}}, 0), d.scratch(f.scratch)
	g.Label("blocks")
	f.prepare(d, m, scratch)
	i := 0
	f.codes(d, m, func(v reg.VecPhysical) {
		g.evenAndOdd(v, even, f.signed)
		if f.scale != nil {
			f.scale(d, scale, scratch, i)
			g.VPMULLW(scale, even, even)
			g.VPMULLW(scale, v, v)
		}
		g.VMOVDQU(even.AsY(), at(out, 2*group*i))
		g.VMOVDQU(v.AsY(), at(out, 2*group*i+eight))
		i++
	})
	end := 2 * f.weights
	if f.mins {
		g.VMOVDQU(d.free[6].AsY(), at(out, end))
		end += eight
	}
	f.factor(d, m, even)
	g.VMOVUPS(even, at(out, end))
	if f.mins {
		if f.factorOfMins != nil {
			f.factorOfMins(d, m, even)
		}
		g.VMOVUPS(even, at(out, end+eight))
	}
	g.ADDQ(operand.U32(f.bytes), w)
	g.ADDQ(operand.U32(f.wordBytes()), out)
	g.DECQ(blocks)
	g.JNZ(operand.LabelRef("blocks"))
	g.VZEROUPPER()
	g.RET()
}
