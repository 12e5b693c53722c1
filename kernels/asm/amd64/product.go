package main

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weightTypes is the types of weights that cmd/internal/product multiplies by. Codes have scales: see group.
func (g *generator) weightTypes() []storage {
	return append(slices.Clone(plain), g.quantized()[0])
}

// group is how many rows of a panel of codes share scales, a row of float32 in front of them.
const group = 32

// grouped reports whether b has scales.
func (p *product) grouped() bool { return p.scaling != unscaled }

// groups begins the loop over groups: scales are where b is, and b moves behind them. count is the group's rows, which
// left loses.
func (p *product) groups(label string, b, scales, count, left reg.GPVirtual, size int) {
	p.Label(label)
	p.MOVQ(b, scales)
	p.ADDQ(operand.U32(size), b)
	p.MOVQ(operand.U32(group), count)
	p.CMPQ(left, count)
	p.CMOVQLT(left, count)
	p.SUBQ(count, left)
}

// ungroup ends it.
func (p *product) ungroup(label string, left reg.GPVirtual) {
	p.TESTQ(left, left)
	p.JNZ(operand.LabelRef(label))
}

// weights is the products of cmd/internal/product, whose weights lie in panels of n columns, one row of a panel after another.
func weights(g *generator) {
	for _, s := range g.weightTypes() {
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
	g.Doc(append([]string{
		fmt.Sprintf("%s multiplies a row c, %d columns wide, by shrink[0] and adds a·b; where shrink is nil it sets", name, panels*2*g.lanes),
		fmt.Sprintf("c to a·b. b is %d panels of depth rows of %d columns, one after the other.", panels, 2*g.lanes),
	}, s.doc()...)...)
	g.Pragma("noescape")
	g.SignatureExpr("func(c, shrink, a *float32, b *byte, depth int)")
	p := &product{generator: g, storage: s, columns: 2 * panels, c: g.pointer("c"), shrink: g.pointer("shrink"),
		a: g.pointer("a"), b: g.pointer("b"), depth: g.pointer("depth")}
	sums, load, x := p.vecs(0, p.columns), p.vec(p.columns), p.vec(p.columns+1)
	size := s.bits / 8 * g.lanes // of a vector's weights
	apart, upper := g.GP64(), g.GP64()
	g.IMUL3Q(operand.U32(2*size), p.depth, apart)
	if p.grouped() {
		scales := g.GP64()
		g.LEAQ(at(p.depth, group-1), scales)
		g.SHRQ(operand.U8(bits.TrailingZeros(group)), scales)
		g.IMUL3Q(operand.U32(2*4*g.lanes), scales, scales)
		g.ADDQ(scales, apart)
	}
	g.LEAQ(operand.Mem{Base: p.b, Index: apart, Scale: 2}, upper)
	c := rowPointers{bases: []reg.GPVirtual{p.c}}
	p.start(c, sums, func(name string) string { return name })
	panel := func(bases []reg.GPVirtual, j, size int) operand.Mem { // vector j's part of a row
		m := at(bases[j/4], j%2*size)
		if j/2%2 == 1 {
			m.Index, m.Scale = apart, 1
		}
		return m
	}
	count, scales := p.depth, []reg.GPVirtual(nil)
	if p.grouped() {
		count, scales = g.GP64(), []reg.GPVirtual{g.GP64(), g.GP64()}
		p.groups("groups", p.b, scales[0], count, p.depth, 2*4*g.lanes)
		g.MOVQ(upper, scales[1])
		g.ADDQ(operand.U32(2*4*g.lanes), upper)
	}
	g.Label("depth")
	g.VBROADCASTSS(at(p.a, 0), x)
	for j, sum := range sums {
		s.load(g, panel([]reg.GPVirtual{p.b, upper}, j, size), load)
		if p.grouped() {
			g.VMULPS(panel(scales, j, 4*g.lanes), load, load)
		}
		g.VFMADD231PS(load, x, sum)
	}
	g.ADDQ(operand.U32(4), p.a)
	g.ADDQ(operand.U32(2*size), p.b)
	g.ADDQ(operand.U32(2*size), upper)
	g.DECQ(count)
	g.JNZ(operand.LabelRef("depth"))
	if p.grouped() {
		p.ungroup("groups", p.depth)
	}
	for j, sum := range sums {
		g.VMOVUPS(sum, c.at(0, j*4*g.lanes))
	}
	g.VZEROUPPER()
	g.RET()
}

// doc is what a function's comment says of b's scales.
func (s storage) doc() []string {
	if s.scaling == unscaled {
		return nil
	}
	return []string{fmt.Sprintf("In front of each %d rows of b are the scales of their columns, a row of float32.", group)}
}

// elements loads a parameter that counts elements of n bits as a number of bytes.
func (g *generator) elements(name string, size int) reg.GPVirtual {
	r := g.pointer(name)
	if shift := bits.TrailingZeros(uint(size / 8)); shift > 0 {
		g.SHLQ(operand.U8(shift), r)
	}
	return r
}
