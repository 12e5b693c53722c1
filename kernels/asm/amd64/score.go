package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// score writes a function for each storage type.
func score(g *generator) {
	for _, t := range append(plain, g.quantized()...) {
		s := scoring{generator: g, t: t}
		s.write()
	}
	pairs(g)
	channels(g)
}

// mostRows is how many query rows share a key that is in registers.
const mostRows = 4

// unit is the elements that a step of the loop over a key multiplies.
const unit = 16

// scoring is the text of one function.
type scoring struct {
	*generator
	t storage

	dst, q, keys, ahead reg.GPVirtual
	row, row3           reg.GPVirtual // bytes from a key to the next, and to the third
	qRow, qRow3         reg.GPVirtual // and of query rows
	scales              reg.GPVirtual
	scale, scale3       reg.GPVirtual // bytes from the scales of a key to those of the next
	count, left         reg.GPVirtual // elements of a key, and of a group
	n                   operand.Mem   // keys
}

func (s *scoring) write() {
	s.Function("score" + s.t.name + s.name)
	s.Pragma("noescape")
	s.Attributes(attr.NOSPLIT)
	s.Doc(fmt.Sprintf("score%s%s is a scorer.", s.t.name, s.name))
	s.SignatureExpr("func(dst *float32, stride, rows, n int, q *float32, dim int, keys *byte, row int, scales *float32, scale, group int, ahead *byte)")
	s.n = s.AllocLocal(8)
	s.row, s.row3 = s.apart("row", 1)
	s.qRow, s.qRow3 = s.apart("dim", 4)
	s.keys, s.ahead, s.dst = s.pointer("keys"), s.pointer("ahead"), s.pointer("dst")
	if s.t.scaling != unscaled {
		s.scales = s.pointer("scales")
	}
	if s.t.scaling == byGroup {
		s.scale, s.scale3 = s.apart("scale", 1)
		s.left = s.GP64()
	}
	s.q, s.count = s.GP64(), s.pointer("n")
	s.MOVQ(s.count, s.n)
	s.halves()
	s.Load(s.Param("rows"), s.count)
	for rows := 1; rows < mostRows; rows++ {
		s.CMPQ(s.count, operand.U8(rows))
		s.JEQ(operand.LabelRef(fmt.Sprintf("rows%d", rows)))
	}
	for rows := mostRows; rows > 0; rows-- {
		s.variant(rows)
	}
}

// apart is a parameter, in bytes of so many, and three times that.
func (s *scoring) apart(name string, size int) (once, thrice reg.GPVirtual) {
	once, thrice = s.pointer(name), s.GP64()
	if size > 1 {
		s.IMUL3Q(operand.U8(size), once, once)
	}
	s.LEAQ(operand.Mem{Base: once, Index: once, Scale: 2}, thrice)
	return once, thrice
}

// nth is memory at one of several places.
func nth(base, once, thrice reg.Register, i, disp int) operand.Mem {
	m := operand.Mem{Base: base, Disp: disp}
	switch i {
	case 1, 2:
		m.Index, m.Scale = once, uint8(i)
	case 3:
		m.Index, m.Scale = thrice, 1
	}
	return m
}

// variant is the loop over the keys for so many rows: a block of them at a time.
func (s *scoring) variant(rows int) {
	name := func(what string) string { return fmt.Sprintf("%s%d", what, rows) }
	jump := func(what string) operand.LabelRef { return operand.LabelRef(name(what)) }
	s.Label(name("rows"))
	b := s.block(rows)
	s.Label(name("block"))
	b.clear()
	s.Load(s.Param("q"), s.q)
	s.Load(s.Param("dim"), s.count)
	left := s.count
	switch s.t.scaling {
	case byChannels:
		s.Load(s.Param("scales"), s.scales)
	case byGroup:
		left = s.left
		s.Label(name("group"))
		s.Load(s.Param("group"), left)
		s.CMPQ(left, s.count)
		s.CMOVQGT(s.count, left)
		s.SUBQ(left, s.count)
		b.begin()
	}
	s.Label(name("step"))
	b.multiply()
	s.SUBQ(operand.U8(unit), left)
	s.JNE(jump("step"))
	if s.t.scaling == byGroup {
		s.ADDQ(operand.U8(8), s.scales)
		s.TESTQ(s.count, s.count)
		s.JNE(jump("group"))
	}
	b.store()

	s.MOVQ(s.n, s.count)
	s.SUBQ(operand.U8(b.nKeys), s.count)
	s.JEQ(jump("end"))
	s.MOVQ(s.count, s.n)
	b.advance()
	s.SUBQ(operand.U8(b.nKeys), s.count)
	s.JGE(jump("block"))
	// Fewer are left than a block has: those before them are scored again.
	s.MOVQ(operand.U32(b.nKeys), s.n)
	b.back(s.count)
	s.JMP(jump("block"))
	s.Label(name("end"))
	s.VZEROUPPER()
	s.RET()
}
