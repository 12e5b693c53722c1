package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// storage is a storage type whose elements a kernel reads as float32.
type storage struct {
	name string // in the names of functions
	bits int    // of an element
	// load sets a vector to lanes elements at m, without their scales.
	load func(g *generator, m operand.Mem, to reg.VecPhysical)
}

// plain is the types without scales.
var plain = []storage{
	{"F32", 32, func(g *generator, m operand.Mem, to reg.VecPhysical) { g.VMOVUPS(m, to) }},
	{"F16", 16, func(g *generator, m operand.Mem, to reg.VecPhysical) { g.VCVTPH2PS(m, to) }},
	{"BF16", 16, func(g *generator, m operand.Mem, to reg.VecPhysical) {
		g.VPMOVZXWD(m, to)
		g.VPSLLD(operand.U8(16), to, to)
	}},
}
