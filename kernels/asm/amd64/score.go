package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// score writes, for each storage type, the functions that multiply keys of it with query rows,
// and those that prepare the operands.
func score(g *generator) {
	for _, t := range append(plain, g.quantized()...) {
		f := floatProducts{t: t}
		f.scoring = &scoring{generator: g, bits: t.bits, by: &f}
		f.write("score" + t.name)
	}
	for _, t := range []integerType{signed, unsigned, nibbles, floats} {
		p := integerProducts{integerType: t}
		p.scoring = &scoring{generator: g, bits: t.bits, by: &p}
		p.write("product" + t.name)
	}
	pairs(g, false)
	pairs(g, true)
	groupBytes(g)
	channels(g)
	fetchWords(g)
	unzipRows(g)
	rowSums(g)
	splitRows(g)
}

// mostRows is how many query rows share a key that is in registers.
const mostRows = 4

// scoring is the text of one function. It scores a block of rows and keys at a time: their sums
// stay in registers over the elements of the keys.
type scoring struct {
	*generator
	bits int // of a key's element
	by   products

	dst, q, keys, ahead reg.GPVirtual
	later               reg.GPVirtual // bytes from what is fetched next to what is wanted after it
	row, row3           reg.GPVirtual // bytes from a key to the next, and to the third
	qRow, qRow3         reg.GPVirtual // and of query rows
	scales              reg.GPVirtual
	scale, scale3       reg.GPVirtual // bytes from the scales of a key to those of the next
	count               reg.GPVirtual // of what is left of the keys' elements
	n, end              operand.Mem   // keys left of the run, and dst behind them
}

// products is how a function multiplies.
type products interface {
	// prepare loads parameters.
	prepare()
	// hold loads what stays in registers over all keys, into those from free on.
	hold(b *block, free int)
	// loop adds the products of the block's keys. They move on by one key, and so do
	// scales that are read on the way.
	loop(b *block)
	// finish is the vector of the scores.
	finish(b *block) reg.VecPhysical
	// scaleBytes is how far apart the scales of keys are that finish reads.
	scaleBytes() int
}

// signature is of every function.
const signature = "func(dst *float32, stride, rows int, q *float32, qRow int, qScales *float32, keys *byte, runs, row int, zeros *float32, scale, group int)"

func (s *scoring) write(name string) {
	s.Function(name + s.name)
	s.Pragma("noescape")
	s.Attributes(attr.NOSPLIT)
	s.Doc(name + s.name + " is a scorer.")
	s.SignatureExpr(signature)
	s.n, s.end = s.AllocLocal(8), s.AllocLocal(8)
	s.row, s.row3 = s.apart("row")
	s.qRow, s.qRow3 = s.apart("qRow")
	s.keys, s.ahead, s.later, s.dst = s.GP64(), s.GP64(), s.GP64(), s.pointer("dst")
	s.by.prepare()
	s.q, s.count = s.GP64(), s.GP64()
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

// apart is a parameter, and three times that.
func (s *scoring) apart(name string) (once, thrice reg.GPVirtual) {
	once, thrice = s.pointer(name), s.GP64()
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

// variant is the loop over the keys for a number of rows.
func (s *scoring) variant(rows int) {
	b, free := s.block(rows)
	s.Label(b.label("rows"))
	s.by.hold(b, free)
	s.Label(b.label("run"))
	s.next()
	s.Label(b.label("block"))
	for _, sum := range b.sums {
		if sum != nil {
			s.zero(sum)
		}
	}
	s.Load(s.Param("q"), s.q)
	s.by.loop(b)
	b.store(s.by.finish(b))

	s.MOVQ(s.n, s.count)
	s.SUBQ(operand.U8(b.keys), s.count)
	s.JEQ(b.to("end"))
	s.MOVQ(s.count, s.n)
	b.advance()
	s.SUBQ(operand.U8(b.keys), s.count)
	s.JGE(b.to("block"))
	// Fewer are left than a block has: those before them are scored again.
	s.MOVQ(operand.U32(b.keys), s.n)
	b.back(s.count)
	s.JMP(b.to("block"))
	s.Label(b.label("end"))
	s.MOVQ(s.end, s.dst)
	s.DECQ(s.parameter("runs"))
	s.JNE(b.to("run"))
	s.VZEROUPPER()
	s.RET()
}

// next begins with the next run of keys.
func (s *scoring) next() {
	run := s.q // which is not in use yet
	s.Load(s.Param("keys"), run)
	s.MOVQ(at(run, storedRows), s.count)
	s.MOVQ(s.count, s.n)
	s.LEAQ(operand.Mem{Base: s.dst, Index: s.count, Scale: 4}, s.count)
	s.MOVQ(s.count, s.end)
	if s.scales != nil {
		s.MOVQ(at(run, storedFactors), s.scales)
	}
	s.ofRun(run, s.keys, s.ahead, s.later)
	s.ADDQ(operand.U8(storedSize), run)
	s.MOVQ(run, s.parameter("keys"))
}

// fetch asks for as many bytes as the block reads of that many from each key.
func (s *scoring) fetch(bytes int) {
	for line := 0; line < bytes; line += 64 {
		s.ask(s.ahead, s.later, line)
	}
	s.ADDQ(operand.U32(bytes), s.ahead)
}
