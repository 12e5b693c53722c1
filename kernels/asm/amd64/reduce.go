package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// sums is accumulators that are added up together, each to one sum: as many as a vector has
// lanes. A nil is a sum that nobody wants.
type sums []reg.VecPhysical

// place is where reduce leaves sum i: the 128-bit part of the vector, and the element of it.
func (g *generator) place(i int) (part, element int) { return i % g.parts(), i / g.parts() }

// parts is the 128-bit parts of a vector.
func (i isa) parts() int { return i.lanes / 4 }

// halves sets the mask that reduce needs of its own.
func (g *generator) halves() {
	if g.wide() {
		ones := g.GP32()
		g.MOVL(operand.U32(0xff00), ones)
		g.KMOVW(ones, reg.K1)
	}
}

// reduce adds up all lanes of each accumulator, and is the vector of the sums. Whatever is
// beside it, the lanes of an accumulator are added in the same order. It needs halves.
func (g *generator) reduce(all sums, spare reg.VecPhysical, add func(...operand.Op)) reg.VecPhysical {
	for level := 0; len(all) > 1; level++ {
		next := make(sums, len(all)/2)
		for i := range next {
			next[i] = g.fold(level, all[2*i], all[2*i+1], spare, add)
		}
		all = next
	}
	return all[0]
}

// fold adds the upper half of what is left of two accumulators to the lower one, and
// is the vector of both.
func (g *generator) fold(level int, a, b, spare reg.VecPhysical, add func(...operand.Op)) reg.VecPhysical {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil:
		a = b
	case b == nil:
		b = a
	}
	if !g.wide() && level > 0 {
		level++
	}
	switch level {
	case 0:
		if g.wide() {
			g.VBLENDMPS(b, a, reg.K1, spare)
			g.VSHUFF64X2(operand.U8(0x4e), b, a, a)
		} else {
			g.VBLENDPS(operand.U8(0xf0), b, a, spare)
			g.VPERM2F128(operand.U8(0x21), b, a, a)
		}
	case 1:
		g.VSHUFF64X2(operand.U8(0x88), b, a, spare)
		g.VSHUFF64X2(operand.U8(0xdd), b, a, a)
	case 2:
		g.VUNPCKLPD(b, a, spare)
		g.VUNPCKHPD(b, a, a)
	case 3:
		g.VSHUFPS(operand.U8(0x88), b, a, spare)
		g.VSHUFPS(operand.U8(0xdd), b, a, a)
	}
	add(spare, a, a)
	return a
}
