package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/reg"
)

// identify asks the processor what it is.
func identify(g *generator) {
	if !g.wide() { // once, and not for each tier
		return
	}
	g.Function("cpuid")
	g.SignatureExpr("func(leaf uint32) (a, b uint32)")
	g.Attributes(attr.NOSPLIT)
	g.Doc("cpuid returns the registers A and B of a leaf of CPUID.")
	g.Load(g.Param("leaf"), reg.EAX)
	g.XORL(reg.ECX, reg.ECX)
	g.CPUID()
	g.Store(reg.EAX, g.Return("a"))
	g.Store(reg.EBX, g.Return("b"))
	g.RET()
}
