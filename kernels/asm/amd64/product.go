package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weights is the products of cmd/internal/product, whose weights lie in panels of n columns, one row of a panel after another.
func weights(g *generator) {
	for _, s := range plain {
		if g.wide() {
			for n := 4; n >= 1; n-- {
				gemmColumns(g, s, fmt.Sprintf("mul%d%s%s", n*g.lanes, s.name, g.name), n)
			}
			continue
		}
		gemmColumns(g, s, "mul16"+s.name+g.name, 2)
		rowOfPanels(g, s)
	}
}

// panels is how many panels rowOfPanels takes at once: of one panel alone there are too few sums to hide the latency
// of their additions.
const panels = 4

// rowOfPanels is the product of one row and some panels of 16 columns.
func rowOfPanels(g *generator, s storage) {
	name := "row64" + s.name + g.name
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.Doc(fmt.Sprintf("%s multiplies a row c, %d columns wide, by shrink[0] and adds a·b; where shrink is nil it sets", name, panels*2*g.lanes),
		fmt.Sprintf("c to a·b. b is %d panels of depth rows of %d columns, one after the other.", panels, 2*g.lanes))
	g.Pragma("noescape")
	g.SignatureExpr("func(c, shrink, a *float32, b *byte, depth int)")
	p := &product{generator: g, storage: s, columns: 2 * panels, c: g.pointer("c"), shrink: g.pointer("shrink"),
		a: g.pointer("a"), b: g.pointer("b"), depth: g.pointer("depth")}
	sums, load, x := p.vecs(0, p.columns), p.vec(p.columns), p.vec(p.columns+1)
	size := s.bits / 8 * g.lanes // of a vector's weights
	apart, upper := g.GP64(), g.GP64()
	g.IMUL3Q(operand.U32(2*size), p.depth, apart)
	g.LEAQ(operand.Mem{Base: p.b, Index: apart, Scale: 2}, upper)
	c := rowPointers{bases: []reg.GPVirtual{p.c}}
	p.start(c, sums, func(name string) string { return name })
	bases := []reg.GPVirtual{p.b, upper}
	panel := func(j int) operand.Mem { // vector j's part of a row
		m := at(bases[j/4], j%2*size)
		if j/2%2 == 1 {
			m.Index, m.Scale = apart, 1
		}
		return m
	}
	g.Label("depth")
	g.VBROADCASTSS(at(p.a, 0), x)
	for j, sum := range sums {
		s.load(g, panel(j), load)
		g.VFMADD231PS(load, x, sum)
	}
	g.ADDQ(operand.U32(4), p.a)
	g.ADDQ(operand.U32(2*size), p.b)
	g.ADDQ(operand.U32(2*size), upper)
	g.DECQ(p.depth)
	g.JNZ(operand.LabelRef("depth"))
	for j, sum := range sums {
		g.VMOVUPS(sum, c.at(0, j*4*g.lanes))
	}
	g.VZEROUPPER()
	g.RET()
}

// elements loads a parameter that counts elements of n bits as a number of bytes.
func (g *generator) elements(name string, size int) reg.GPVirtual {
	r := g.pointer(name)
	if shift := bits.TrailingZeros(uint(size / 8)); shift > 0 {
		g.SHLQ(operand.U8(shift), r)
	}
	return r
}
