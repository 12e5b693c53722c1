package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// storage is a storage type whose elements a kernel reads as float32.
type storage struct {
	name string // in the names of functions
	bits int    // of an element
	// constants is what load finds in the generator's held registers.
	constants []constant
	// load sets a vector to as many elements at m, of quantized types their codes.
	load func(g *generator, m operand.Mem, to reg.VecPhysical)
}

// plain is the types without scales.
var plain = []storage{
	{name: "F32", bits: 32, load: func(g *generator, m operand.Mem, to reg.VecPhysical) { g.VMOVUPS(m, to) }},
	{name: "F16", bits: 16, load: func(g *generator, m operand.Mem, to reg.VecPhysical) { g.VCVTPH2PS(m, to) }},
	{name: "BF16", bits: 16, load: func(g *generator, m operand.Mem, to reg.VecPhysical) {
		g.VPMOVZXWD(m, to)
		g.VPSLLD(operand.U8(16), to, to)
	}},
}
