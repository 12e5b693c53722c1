package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mask is a mask register, or vector register i where masks are vectors.
func (g *generator) mask(i int) reg.Register {
	if g.wide() {
		return g.K()
	}
	return g.vec(i)
}

// ragged goes through n float32, a vector at a time. What is done with those at an offset, in
// bytes, keeps to the lanes of inside, which are those before the end. Vectors that are whole
// need no mask, with which some processors store slowly.
func (g *generator) ragged(label string, n, inside reg.Register, spare reg.VecPhysical, do func(offset reg.Register)) {
	left, offset := g.GP64(), g.GP64()
	g.MOVQ(n, left)
	g.XORQ(offset, offset)
	g.SUBQ(operand.U8(g.lanes), left)
	g.JLT(operand.LabelRef(label + "Rest"))
	g.Label(label)
	g.whole = true
	do(offset)
	g.whole = false
	g.ADDQ(operand.U8(4*g.lanes), offset)
	g.SUBQ(operand.U8(g.lanes), left)
	g.JGE(operand.LabelRef(label))
	g.Label(label + "Rest")
	g.ADDQ(operand.U8(g.lanes), left)
	g.JEQ(operand.LabelRef(label + "End"))
	g.lanesBefore(left, inside, spare)
	do(offset)
	g.Label(label + "End")
}

// lanesBefore sets a mask to the lanes before one.
func (g *generator) lanesBefore(end reg.GPVirtual, inside reg.Register, spare reg.VecPhysical) {
	if g.wide() {
		g.VPBROADCASTD(end.As32(), spare)
	} else {
		g.VMOVD(end.As32(), spare.AsX())
		g.VPBROADCASTD(spare.AsX(), spare)
	}
	g.VPCMPGTD(g.global(constant{"lanes", func(lane int) uint32 { return uint32(lane) }}), spare, inside)
}

// loadInside sets a vector to the lanes of a mask, and to 0.
func (g *generator) loadInside(m operand.Mem, inside reg.Register, v reg.VecPhysical) {
	switch {
	case g.whole:
		g.VMOVUPS(m, v)
	case g.wide():
		g.VMOVUPS_Z(m, inside, v)
	default:
		g.VMASKMOVPS(m, inside, v)
	}
}

// storeInside stores the lanes of a mask.
func (g *generator) storeInside(v reg.VecPhysical, inside reg.Register, m operand.Mem) {
	switch {
	case g.whole:
		g.VMOVUPS(v, m)
	case g.wide():
		g.VMOVUPS(v, inside, m)
	default:
		g.VMASKMOVPS(v, inside, m)
	}
}

// setOutside sets the lanes that are not in a mask to those of another vector.
func (g *generator) setOutside(v, other reg.VecPhysical, inside reg.Register) {
	if g.wide() {
		g.VBLENDMPS(v, other, inside, v)
	} else {
		g.VBLENDVPS(inside, v, other, v)
	}
}
