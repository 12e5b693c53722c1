package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Codes of 4 bits come as those at even places and those at odd ones. What they are multiplied with,
// or added to, is brought into that order, and back: of two vectors in turns.
var (
	evens      = constant{"evens", func(i int) uint32 { return uint32(2 * i) }}
	odds       = constant{"odds", func(i int) uint32 { return uint32(2*i + 1) }}
	lowHalves  = constant{"lowHalves", func(i int) uint32 { return uint32(i/2 + i%2*16) }}
	highHalves = constant{"highHalves", func(i int) uint32 { return uint32(8 + i/2 + i%2*16) }}
)

// zipping loads the indices that zip and unzip need into step and odd.
func (m *mixer) zipping(first, second constant) {
	if m.wide() {
		m.move(m.global(first), m.step)
		m.move(m.global(second), m.odd)
	}
}

// unzip sets a and to to the elements of a and b at even and at odd places.
func (m *mixer) unzip(a, b, to reg.VecPhysical) {
	if m.wide() {
		m.VMOVAPS(a, to)
		m.VPERMT2PS(b, m.step, a)
		m.VPERMT2PS(b, m.odd, to)
		return
	}
	m.VSHUFPS(operand.U8(0xdd), b, a, to)
	m.VSHUFPS(operand.U8(0x88), b, a, a)
	m.VPERMPD(operand.U8(0xd8), a, a)
	m.VPERMPD(operand.U8(0xd8), to, to)
}

// zip undoes unzip.
func (m *mixer) zip(a, b reg.VecPhysical) {
	if m.wide() {
		m.VMOVAPS(a, m.value)
		m.VPERMT2PS(b, m.step, a)
		m.VPERMT2PS(b, m.odd, m.value)
		m.VMOVAPS(m.value, b)
		return
	}
	m.VUNPCKLPS(b, a, m.value)
	m.VUNPCKHPS(b, a, b)
	m.VPERM2F128(operand.U8(0x20), b, m.value, a)
	m.VPERM2F128(operand.U8(0x31), b, m.value, b)
}

// unzipRows writes the function that brings query rows into the order of codes.
func unzipRows(g *generator) {
	if !g.wide() {
		return
	}
	g.Function("unzipRows" + g.name)
	g.Pragma("noescape")
	g.Attributes(attr.NOSPLIT)
	g.Doc("unzipRows" + g.name + " sets dst to rows of dim elements of q, a multiple of 16: of every 32 those at even places come first.")
	g.SignatureExpr("func(dst, q *float32, dim, rows int)")
	dst, q, rows, left := g.pointer("dst"), g.pointer("q"), g.pointer("rows"), g.GP64()
	even, odd := g.vec(0), g.vec(1)
	g.hold([]constant{evens, odds}, 2)
	g.Label("row")
	g.Load(g.Param("dim"), left)
	g.Label("pair")
	g.CMPQ(left, operand.U8(2*unit))
	g.JLT(operand.LabelRef("rest"))
	g.VMOVUPS(at(q, 0), even)
	g.VMOVAPS(even, odd)
	g.VPERMT2PS(at(q, 4*unit), g.held[0], even)
	g.VPERMT2PS(at(q, 4*unit), g.held[1], odd)
	g.VMOVUPS(even, at(dst, 0))
	g.VMOVUPS(odd, at(dst, 4*unit))
	g.ADDQ(operand.U32(8*unit), q)
	g.ADDQ(operand.U32(8*unit), dst)
	g.SUBQ(operand.U8(2*unit), left)
	g.JNE(operand.LabelRef("pair"))
	g.JMP(operand.LabelRef("next"))
	g.Label("rest")
	g.VMOVUPS(at(q, 0), even)
	g.VMOVUPS(even, at(dst, 0))
	g.ADDQ(operand.U8(4*unit), q)
	g.ADDQ(operand.U8(4*unit), dst)
	g.Label("next")
	g.DECQ(rows)
	g.JNE(operand.LabelRef("row"))
	g.VZEROUPPER()
	g.RET()
}
