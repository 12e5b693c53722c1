package main

import (
	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// transpose takes four columns of a vector's worth of rows at a time. Quarter q of a
// vector gets the columns of row 4q+i, for four vectors i: then four rows times four columns
// of each quarter change places, with shuffles that stay in it, and rows are in order.
func transpose(g *generator) {
	name := "transpose" + g.name
	g.Function(name)
	g.Attributes(attr.NOSPLIT)
	g.Doc(name+" sets column r of dst, whose rows are stride elements apart, to row r of src,",
		"whose 16 rows of cols elements, a multiple of 4, are back to back.")
	g.Pragma("noescape")
	g.SignatureExpr("func(dst *float32, stride int, src *float32, cols int)")
	dst, stride, src, width := g.pointer("dst"), g.bytes("stride"), g.pointer("src"), g.bytes("cols")
	for done := 0; done < 16; done += g.lanes {
		transposeRows(g, dst, stride, src, width, done)
	}
	g.VZEROUPPER()
	g.RET()
}

// transposeRows is a vector's worth of rows from row first on.
func transposeRows(g *generator, dst, stride, src, width reg.GPVirtual, first int) {
	label := map[int]string{0: "first", 8: "second"}[first]
	three := g.GP64()
	g.LEAQ(operand.Mem{Base: width, Index: width, Scale: 2}, three)
	quarters := make([]reg.GPVirtual, g.lanes/4) // row 4q of them
	for q := range quarters {
		quarters[q] = g.GP64()
		g.IMUL3Q(operand.U32(first+4*q), width, quarters[q])
		g.ADDQ(src, quarters[q])
	}
	to, left := g.GP64(), g.GP64()
	g.LEAQ(at(dst, 4*first), to)
	g.MOVQ(width, left)

	g.Label(label)
	rows := g.vecs(0, 4)
	for i, v := range rows {
		for q, base := range quarters {
			m := at(base, 0)
			switch i {
			case 1, 2:
				m.Index, m.Scale = width, uint8(i)
			case 3:
				m.Index, m.Scale = three, 1
			}
			g.quarter(m, v, q)
		}
	}
	pairs, columns := g.vecs(4, 4), g.vecs(8, 4)
	for i := range 2 {
		g.VUNPCKLPS(rows[2*i+1], rows[2*i], pairs[2*i])
		g.VUNPCKHPS(rows[2*i+1], rows[2*i], pairs[2*i+1])
	}
	for i := range 2 {
		g.VUNPCKLPD(pairs[2+i], pairs[i], columns[2*i])
		g.VUNPCKHPD(pairs[2+i], pairs[i], columns[2*i+1])
	}
	for _, v := range columns {
		g.VMOVUPS(v, at(to, 0))
		g.ADDQ(stride, to)
	}
	for _, base := range quarters {
		g.ADDQ(operand.U32(16), base)
	}
	g.SUBQ(operand.U32(16), left)
	g.JNZ(operand.LabelRef(label))
}

// quarter loads four elements at m into quarter q of a vector; the first clears the rest.
func (g *generator) quarter(m operand.Mem, v reg.VecPhysical, q int) {
	switch {
	case q == 0:
		g.VMOVUPS(m, v.AsX())
	case g.wide():
		g.VINSERTF32X4(operand.U8(q), m, v, v)
	default:
		g.VINSERTF128(operand.U8(q), m, v, v)
	}
}
