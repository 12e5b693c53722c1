package main

import (
	"fmt"
	"math/bits"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mix writes a function for each type that values are stored as.
func mix(g *generator) {
	c := &converter{g, map[string]operand.Mem{}}
	for _, t := range append(plain, g.quantized()...) {
		m := mixer{converter: c, t: t}
		switch {
		case t.scaling == byChannels: // keys only
		case t.scaling == byGroup && t.bits == 4:
			m.group = 32
			m.write(t.name)
			m.group = 64
			m.write(t.name + "G64")
		default:
			m.write(t.name)
		}
	}
	fold(c)
	mixWords(c)
	roundRows(c)
}

// mixer is the text of one function. Rows of acc are taken four at a time, and of those a
// block of columns, which stays in registers over all values: what is loaded of a value is
// converted once for the rows of the block.
type mixer struct {
	*converter
	t     storage
	group int // elements that share a scale, 0: the row

	ahead, later reg.GPVirtual // what is fetched next, and bytes from there to what is wanted after it
	run          reg.GPVirtual // of values
	runs         operand.Mem   // that are left
	row, stride  reg.GPVirtual // bytes from a value to the next, and of rows of p
	scale        reg.GPVirtual // and of a value's scales
	col          reg.GPVirtual // first column of the block
	acc, factors []reg.VecPhysical
	value, step  reg.VecPhysical // step is a table where there are tables
	odd          reg.VecPhysical // values at odd places, where they come in pairs
}

func (m *mixer) write(name string) {
	m.function("mix"+name, "func(acc, shrink, p *float32, stride int, values *byte, runs, dim, rows, scale int)",
		"is a mixer.")
	m.ahead, m.later, m.run, m.runs = m.GP64(), m.GP64(), m.GP64(), m.AllocLocal(8)
	m.row, m.stride, m.col = m.pointer("dim"), m.pointer("stride"), m.GP64()
	m.packed(m.row)
	m.SHLQ(operand.U8(2), m.stride)
	if m.t.scaling == byGroup {
		m.scale = m.pointer("scale")
	}
	n := m.regs / 2
	m.acc, m.factors, m.value = m.vecs(0, n), m.vecs(n, mostRows), m.vec(n+mostRows)
	constants := m.t.constants
	if m.inPairs() {
		constants = nil
		if m.wide() {
			constants = []constant{codes}
		}
	}
	m.step, m.odd = m.value, m.value
	if free := m.hold(constants, n+mostRows+1); free < m.regs {
		m.step = m.vec(free)
		if m.inPairs() {
			m.odd = m.vec(free + 1)
		}
	}
	for rows := mostRows; rows > 0; rows-- {
		m.rows(rows)
	}
	m.Label("rows0")
	m.end()
}

// inPairs reports whether two vectors of values are loaded at once: a block's columns in registers
// are then those at even places and those at odd ones in turns.
func (m *mixer) inPairs() bool { return m.t.scaling == byGroup && m.t.bits == 4 }

// packed turns a number of elements into their bytes.
func (m *mixer) packed(n reg.Register) {
	if shift := bits.Len(uint(m.t.bits)) - bits.Len(8); shift < 0 {
		m.SHRQ(operand.U8(-shift), n)
	} else if shift > 0 {
		m.SHLQ(operand.U8(shift), n)
	}
}

// rows writes the loop over blocks of so many rows. Registers are scarce: acc, shrink, p and
// rows advance where the caller has put them.
func (m *mixer) rows(rows int) {
	m.Label(fmt.Sprintf("rows%d", rows))
	m.CMPQ(m.parameter("rows"), operand.U8(rows))
	m.JLT(operand.LabelRef(fmt.Sprintf("rows%d", rows-1)))
	m.XORQ(m.col, m.col)
	for width := 4; width*m.lanes >= unit; width /= 2 {
		if rows*width <= len(m.acc) {
			m.columns(rows, width)
		}
	}
	step := m.pointer("dim")
	m.IMUL3Q(operand.U8(4*rows), step, step)
	m.ADDQ(step, m.parameter("acc"))
	m.IMUL3Q(operand.U8(rows), m.stride, step)
	m.ADDQ(step, m.parameter("p"))
	m.ADDQ(operand.U8(4*rows), m.parameter("shrink"))
	m.SUBQ(operand.U8(rows), m.parameter("rows"))
	m.JMP(operand.LabelRef(fmt.Sprintf("rows%d", rows)))
}

// columns writes the loop over blocks of so many rows and vectors.
func (m *mixer) columns(rows, width int) {
	name := fmt.Sprintf("%dx%d", rows, width)
	columns := width * m.lanes
	end := m.GP64()
	m.Label("block" + name)
	m.LEAQ(at(m.col, columns), end)
	m.CMPQ(end, m.parameter("dim"))
	m.JGT(operand.LabelRef("rest" + name))
	m.begin(rows, width)

	p, thrice := m.pointer("p"), m.GP64()
	m.LEAQ(operand.Mem{Base: m.stride, Index: m.stride, Scale: 2}, thrice)
	m.Load(m.Param("values"), m.run)
	m.MOVQ(m.parameter("runs"), m.ahead)
	m.MOVQ(m.ahead, m.runs)
	m.Label("run" + name)
	from, count, scales := m.values()
	m.Label("values" + name)
	for r, f := range m.factors[:rows] {
		m.VBROADCASTSS(nth(p, m.stride, thrice, r, 0), f)
	}
	for v := 0; v < width; v++ {
		m.load(at(from, v*m.lanes*m.t.bits/8), scales, v, width)
		for r, f := range m.factors[:rows] {
			m.VFMADD231PS(f, m.value, m.acc[r*width+v])
			if m.inPairs() && width > 1 {
				m.VFMADD231PS(f, m.odd, m.acc[r*width+v+1])
			}
		}
		if m.inPairs() && width > 1 {
			v++
		}
	}
	m.fetch(columns * m.t.bits / 8)
	m.ADDQ(m.row, from)
	m.ADDQ(operand.U8(4), p)
	if m.t.scaling == byGroup {
		m.ADDQ(m.scale, scales)
	}
	m.DECQ(count)
	m.JNZ(operand.LabelRef("values" + name))
	m.ADDQ(operand.U8(storedSize), m.run)
	m.DECQ(m.runs)
	m.JNZ(operand.LabelRef("run" + name))

	m.store(rows, width)
	m.MOVQ(end, m.col)
	m.JMP(operand.LabelRef("block" + name))
	m.Label("rest" + name)
}

// begin loads a block of acc, and shrinks it.
func (m *mixer) begin(rows, width int) {
	shrink := m.pointer("shrink")
	for r, f := range m.factors[:rows] {
		m.VBROADCASTSS(at(shrink, 4*r), f)
	}
	if !m.inPairs() || width == 1 {
		m.each(rows, width, func(r, i int, at operand.Mem) { m.VMULPS(at, m.factors[r], m.acc[i]) })
		return
	}
	m.zipping(evens, odds)
	m.each(rows, width, func(r, i int, at operand.Mem) {
		if i%2 > 0 {
			m.VMOVUPS(at, m.value)
			m.unzip(m.acc[i-1], m.value, m.acc[i])
			m.VMULPS(m.factors[r], m.acc[i-1], m.acc[i-1])
			m.VMULPS(m.factors[r], m.acc[i], m.acc[i])
			return
		}
		m.VMOVUPS(at, m.acc[i])
	})
}

// store stores a block of acc.
func (m *mixer) store(rows, width int) {
	pairs := m.inPairs() && width > 1
	if pairs {
		m.zipping(lowHalves, highHalves)
	}
	m.each(rows, width, func(r, i int, at operand.Mem) {
		if pairs && i%2 == 0 {
			m.zip(m.acc[i], m.acc[i+1])
		}
		m.VMOVUPS(m.acc[i], at)
	})
}

// each does something with vector i of a block of acc, and where it is in memory.
func (m *mixer) each(rows, width int, do func(r, i int, at operand.Mem)) {
	acc, row, thrice := m.pointer("acc"), m.pointer("dim"), m.GP64()
	m.SHLQ(operand.U8(2), row)
	m.LEAQ(operand.Mem{Base: row, Index: row, Scale: 2}, thrice)
	m.LEAQ(operand.Mem{Base: acc, Index: m.col, Scale: 4}, acc)
	for i := range rows * width {
		do(i/width, i, nth(acc, row, thrice, i/width, i%width*m.lanes*4))
	}
}

// values is where the block's columns of the first value of the run are, how many values it has,
// and where their scales are. What is fetched is as far ahead as the block's columns are.
func (m *mixer) values() (from, count, scales reg.GPVirtual) {
	from, count = m.GP64(), m.GP64()
	m.ofRun(m.run, from, m.ahead, m.later)
	m.MOVQ(m.col, count)
	m.packed(count)
	m.ADDQ(count, from)
	m.IMULQ(at(m.run, storedRows), count)
	m.ADDQ(count, m.ahead)
	if m.t.scaling == byGroup {
		scales = m.GP64()
		m.MOVQ(at(m.run, storedFactors), scales)
		if m.group > 0 {
			m.MOVQ(m.col, count)
			m.SHRQ(operand.U8(bits.Len(uint(m.group))-1), count)
			m.LEAQ(operand.Mem{Base: scales, Index: count, Scale: 8}, scales)
		}
	}
	m.MOVQ(at(m.run, storedRows), count)
	return from, count, scales
}

// load sets value to vector v of a value's columns, or value and odd to two of them from there on.
// The scale of a whole row is in its factor.
func (m *mixer) load(from operand.Mem, scales reg.Register, v, width int) {
	if m.t.scaling != byGroup {
		m.t.load(m.generator, from, m.value)
		return
	}
	group, fresh := 0, v == 0
	if m.group > 0 {
		group, fresh = v*m.lanes/m.group, v*m.lanes%m.group == 0
	}
	step, zero := at(scales, 8*group), at(scales, 8*group+4)
	switch {
	case fresh && m.wide() && m.inPairs():
		m.VBROADCASTSS(zero, m.step)
		m.VFMADD231PS_BCST(step, m.held[0], m.step)
	case fresh:
		m.VBROADCASTSS(step, m.step)
		m.VBROADCASTSS(zero, m.spare)
	}
	switch {
	case m.inPairs() && width > 1:
		m.t.pair(m.generator, from, m.value, m.odd, pairScales{m.step, m.spare, m.step})
	case m.inPairs():
		m.fewCodes(from, m.step, m.value)
	default:
		m.t.load(m.generator, from, m.value)
		m.VFMADD213PS(m.spare, m.step, m.value)
	}
}

// fetch asks for the next bytes of those ahead.
func (m *mixer) fetch(bytes int) {
	for line := 0; line < bytes; line += 64 {
		m.ask(m.ahead, m.later, line)
	}
	m.ADDQ(operand.U32(bytes), m.ahead)
}
