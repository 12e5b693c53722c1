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
		m := mixer{blocks: blocks{converter: c}, t: t}
		switch {
		case t.scaling == byChannels: // keys only
		case len(t.groups) == 0:
			m.write(t.name)
		}
		for i, group := range t.groups {
			name := t.name
			if i > 0 {
				name += fmt.Sprint("G", group)
			}
			m.group = group
			m.write(name)
		}
	}
	fold(c)
	mixWords(c)
	roundRows(c)
}

// mixer is the text of a function for values of one type.
type mixer struct {
	blocks
	t     storage
	group int // elements that share a scale, 0: the row

	scale       reg.GPVirtual   // bytes from the scales of a value to those of the next
	value, step reg.VecPhysical // step is a table where there are tables
	odd         reg.VecPhysical // values at odd places, where they come in pairs
}

func (m *mixer) write(name string) {
	m.function("mix"+name, "func(acc, shrink, p *float32, stride int, values *byte, runs, dim, rows, scale, row int)",
		"is a mixer.")
	m.text, m.bits, m.word, m.from, m.perRow, m.least = m, m.t.bits, 4, "p", []string{"shrink"}, unit
	free := m.prepare()
	if m.t.scaling == byGroup {
		m.scale = m.pointer("scale")
	}
	m.value = m.vec(free)
	m.step, m.odd = m.value, m.value
	if free = m.hold(m.t.constants, free+1); free < m.regs {
		m.step = m.vec(free)
	}
	if m.t.pair != nil {
		m.odd = m.vec(free + 1)
	}
	m.all()
}

// paired reports whether two vectors of values are loaded at once: the columns in registers are then
// those at even places and those at odd ones in turns.
func (m *mixer) paired(width int) bool {
	return m.t.pair != nil && width > 1 && (m.group == 0 || m.group >= 2*m.lanes)
}

// begin loads a block of acc, and shrinks it.
func (m *mixer) begin(rows, width int) {
	shrink := m.pointer("shrink")
	for r, f := range m.factors[:rows] {
		m.VBROADCASTSS(at(shrink, 4*r), f)
	}
	if !m.paired(width) {
		m.each(rows, width, func(r, i int, at operand.Mem) { m.VMULPS(at, m.factors[r], m.sums[i]) })
		return
	}
	m.zipping(evens, odds)
	m.each(rows, width, func(r, i int, at operand.Mem) {
		if i%2 == 0 {
			m.VMOVUPS(at, m.sums[i])
			return
		}
		m.VMOVUPS(at, m.value)
		m.unzip(m.sums[i-1], m.value, m.sums[i])
		m.VMULPS(m.factors[r], m.sums[i-1], m.sums[i-1])
		m.VMULPS(m.factors[r], m.sums[i], m.sums[i])
	})
}

// values adds the values of a run, times their weights.
func (m *mixer) values(rows, width int, p, thrice, from, count reg.GPVirtual) {
	name, scales := blockName(rows, width), m.scales()
	m.Label("values" + name)
	for r, f := range m.factors[:rows] {
		m.VBROADCASTSS(nth(p, m.stride, thrice, r, 0), f)
	}
	for v := 0; v < width; {
		values := m.load(at(from, v*m.lanes*m.t.bits/8), scales, v, width)
		for r, f := range m.factors[:rows] {
			for i, value := range values {
				m.VFMADD231PS(f, value, m.sums[r*width+v+i])
			}
		}
		v += len(values)
	}
	m.fetch(width * m.lanes * m.t.bits / 8)
	m.ADDQ(m.row, from)
	m.ADDQ(operand.U8(4), p)
	if scales != nil {
		m.ADDQ(m.scale, scales)
	}
	m.DECQ(count)
	m.JNZ(operand.LabelRef("values" + name))
}

// finish stores a block of acc.
func (m *mixer) finish(rows, width int) {
	if m.paired(width) {
		m.zipping(lowHalves, highHalves)
	}
	m.each(rows, width, func(r, i int, at operand.Mem) {
		if m.paired(width) && i%2 == 0 {
			m.zip(m.sums[i], m.sums[i+1])
		}
		m.VMOVUPS(m.sums[i], at)
	})
}

// scales is where the scales of the block's columns of the first value of the run are.
func (m *mixer) scales() reg.Register {
	if m.t.scaling != byGroup {
		return nil
	}
	scales := m.GP64()
	m.MOVQ(at(m.run, storedFactors), scales)
	if m.group > 0 {
		group := m.GP64()
		m.MOVQ(m.col, group)
		m.SHRQ(operand.U8(bits.Len(uint(m.group))-1), group)
		m.LEAQ(operand.Mem{Base: scales, Index: group, Scale: 8}, scales)
	}
	return scales
}

// load is vector v of a value's columns, or two of them from there on. The scale of a whole row is in
// its weight.
func (m *mixer) load(from operand.Mem, scales reg.Register, v, width int) []reg.VecPhysical {
	one := []reg.VecPhysical{m.value}
	if m.t.scaling != byGroup {
		m.t.load(m.generator, from, m.value)
		return one
	}
	group, fresh := 0, v == 0
	if m.group > 0 {
		group, fresh = v*m.lanes/m.group, v*m.lanes%m.group == 0
	}
	step, zero := at(scales, 8*group), at(scales, 8*group+4)
	switch {
	case fresh && m.byTables(m.t):
		m.table(m.t, step, zero, m.step)
	case fresh:
		m.VBROADCASTSS(step, m.step)
		m.VBROADCASTSS(zero, m.spare)
	}
	switch {
	case m.paired(width):
		m.t.pair(m.generator, from, m.value, m.odd, pairScales{m.step, m.spare, m.step})
		return []reg.VecPhysical{m.value, m.odd}
	case m.byTables(m.t):
		m.lookUp(from, m.step, m.value)
	default:
		m.t.load(m.generator, from, m.value)
		m.VFMADD213PS(m.spare, m.step, m.value)
	}
	return one
}
