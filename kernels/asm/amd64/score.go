package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// score writes a function for each storage type.
func score(g *generator) {
	for _, t := range plain {
		newScoring(g, t).write()
	}
}

// mostRows is how many query rows share a key that is in registers.
const mostRows = 4

// scoring is the text of one function. Its vector registers are the sums of all rows and a few
// keys, the rows' next elements, those of one key, and constants.
type scoring struct {
	*generator
	t storage

	dst, q, keys, ahead reg.GPVirtual
	row, row3           reg.GPVirtual // bytes from a key to the next, and to the third
	qRow, qRow3         reg.GPVirtual // and of query rows
	count               reg.GPVirtual
	n                   operand.Mem // keys left
}

func newScoring(g *generator, t storage) *scoring { return &scoring{generator: g, t: t} }

// keysOf is how many keys are scored at once for so many rows.
func (s *scoring) keysOf(rows int) int {
	if !s.wide() && rows > 2 {
		return 2
	}
	return 4
}

func (s *scoring) write() {
	s.Function("score" + s.t.name + s.name)
	s.Pragma("noescape")
	s.Attributes(attr.NOSPLIT)
	s.Doc(fmt.Sprintf("score%s%s sets dst[r*stride+j] to the product of row r of q, one of %d, and key j of at least 4; ahead is fetched.", s.t.name, s.name, mostRows))
	s.SignatureExpr("func(dst *float32, stride, rows, n int, q *float32, dim int, keys *byte, row int, ahead *byte)")
	s.n = s.AllocLocal(8)
	s.row, s.qRow, s.count = s.pointer("row"), s.pointer("dim"), s.GP64()
	s.row3, s.qRow3 = s.GP64(), s.GP64()
	s.SHLQ(operand.U8(2), s.qRow)
	s.LEAQ(operand.Mem{Base: s.row, Index: s.row, Scale: 2}, s.row3)
	s.LEAQ(operand.Mem{Base: s.qRow, Index: s.qRow, Scale: 2}, s.qRow3)
	s.keys, s.ahead, s.dst, s.q = s.pointer("keys"), s.pointer("ahead"), s.pointer("dst"), s.GP64()
	s.Load(s.Param("n"), s.count)
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

// variant is the loop over the keys for so many rows.
func (s *scoring) variant(rows int) {
	keys, name := s.keysOf(rows), func(what string) string { return fmt.Sprintf("%s%d", what, rows) }
	s.Label(name("rows"))
	all := make(sums, s.lanes)
	for i := range all {
		part, element := s.place(i)
		if r, k := s.owner(part, element, keys); r < rows {
			all[i] = s.vec(r*keys + k)
			s.zero(all[i])
		}
	}
	row := s.vecs(rows*keys, rows)
	key := s.vec(rows*keys + rows)
	s.Load(s.Param("q"), s.q)
	s.Load(s.Param("dim"), s.count)
	s.Label(name("step"))
	s.step(rows, keys, all, row, key)
	s.SUBQ(operand.U8(16), s.count)
	s.JNE(operand.LabelRef(name("step")))

	sum := s.reduce(all, key, s.VADDPS)
	s.store(rows, keys, sum, key)

	s.MOVQ(s.n, s.count)
	s.SUBQ(operand.U8(keys), s.count)
	s.JEQ(operand.LabelRef(name("end")))
	s.MOVQ(s.count, s.n)
	// step has moved keys on by one row.
	s.ADDQ(s.row, s.keys)
	if keys == 4 {
		s.LEAQ(operand.Mem{Base: s.keys, Index: s.row, Scale: 2}, s.keys)
	}
	s.ADDQ(operand.U8(4*keys), s.dst)
	s.SUBQ(operand.U8(keys), s.count)
	s.JGE(operand.LabelRef(name("rows")))
	// Fewer are left: those before them are scored again.
	s.MOVQ(operand.U32(keys), s.n)
	s.LEAQ(operand.Mem{Base: s.dst, Index: s.count, Scale: 4}, s.dst)
	s.IMULQ(s.row, s.count)
	s.ADDQ(s.count, s.keys)
	s.ADDQ(s.count, s.ahead)
	s.JMP(operand.LabelRef(name("rows")))
	s.Label(name("end"))
	s.VZEROUPPER()
	s.RET()
}

// owner is the row and the key whose sum is at a place.
func (s *scoring) owner(part, element, keys int) (r, k int) {
	return part*(4/keys) + element/keys, element % keys
}

// step multiplies the next 16 elements.
func (s *scoring) step(rows, keys int, all sums, row []reg.VecPhysical, key reg.VecPhysical) {
	bytes := 16 * s.t.bits / 8
	for done := 0; done < 16; done += s.lanes {
		for r, v := range row {
			m := nth(s.q, s.qRow, s.qRow3, r)
			m.Disp = 4 * done
			s.VMOVUPS(m, v)
		}
		for k := range keys {
			m := nth(s.keys, s.row, s.row3, k)
			m.Disp = done * s.t.bits / 8
			s.t.load(s.generator, m, key)
			for r, v := range row {
				s.VFMADD231PS(v, key, s.vec(r*keys+k))
			}
		}
	}
	for line := 0; line < keys*bytes; line += 64 {
		s.PREFETCHT0(at(s.ahead, line))
	}
	s.ADDQ(operand.U32(keys*bytes), s.ahead)
	s.ADDQ(operand.U8(bytes), s.keys)
	s.ADDQ(operand.U8(64), s.q)
}

// nth is memory at a row of several that are a number of bytes apart; triple is three times
// that number.
func nth(base, apart, triple reg.Register, i int) operand.Mem {
	switch i {
	case 0:
		return operand.Mem{Base: base}
	case 3:
		return operand.Mem{Base: base, Index: triple, Scale: 1}
	}
	return operand.Mem{Base: base, Index: apart, Scale: uint8(i)}
}

// store writes the scores of a few keys.
func (s *scoring) store(rows, keys int, sum, spare reg.VecPhysical) {
	s.Load(s.Param("stride"), s.count)
	s.SHLQ(operand.U8(2), s.count)
	triple := s.q // which begins anew with the next keys
	s.LEAQ(operand.Mem{Base: s.count, Index: s.count, Scale: 2}, triple)
	for r := range rows {
		part, element := r/(4/keys), r%(4/keys)*keys
		from := spare.AsX()
		if part == 0 {
			from = sum.AsX()
		} else if element == 0 {
			if s.wide() {
				s.VEXTRACTF32X4(operand.U8(part), sum, from)
			} else {
				s.VEXTRACTF128(operand.U8(part), sum, from)
			}
		}
		to := nth(s.dst, s.count, triple, r)
		switch {
		case keys == 4:
			s.VMOVUPS(from, to)
		case element == 0:
			s.VMOVLPS(from, to)
		default:
			s.VMOVHPS(from, to)
		}
	}
}
