package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mixWords writes the function that mixes values of signed bytes by weights of 16 bits: products of
// two values and their weights are added as integers at once.
func mixWords(c *converter) {
	m := wordMixer{blocks: blocks{converter: c, bits: 8, word: 2, from: "weights", perRow: []string{"shrink", "steps"}, least: 2 * c.lanes}}
	m.function("mixWords", "func(acc, shrink, steps *float32, weights *uint16, stride int, values *byte, runs, dim, rows, row int)",
		"multiplies rows of acc by shrink, and adds to each its step times the sums of its weights, stride apart, times runs of values of dim bytes, a multiple of 32, that are row bytes apart.")
	m.text, m.next = &m, m.AllocLocal(8)
	free := m.prepare()
	m.one, m.other, m.low, m.term = m.vec(free), m.vec(free+1), m.vec(free+2), m.vec(free+3)
	if m.wide() {
		m.first, m.second = m.vec(free+4), m.vec(free+5)
		m.move(m.words("firstOfUnpacked", unpacked(0)), m.first)
		m.move(m.words("secondOfUnpacked", unpacked(2)), m.second)
	}
	m.all()
}

// unpacked is the index of words behind an unpacking of two vectors: parts from one on, of the
// lower and the upper result in turns.
func unpacked(part int) func(i int) uint32 {
	return func(i int) uint32 { return uint32(i/4%2*16 + (part+i/8)*4 + i%4) }
}

// wordMixer is the text of mixWords.
type wordMixer struct {
	blocks
	next          operand.Mem     // where the weights of the next run are
	one, other    reg.VecPhysical // values
	low, term     reg.VecPhysical
	first, second reg.VecPhysical // indices that undo unpacking
}

// begin clears the sums.
func (m *wordMixer) begin(rows, width int) {
	for _, sum := range m.sums[:rows*width] {
		m.zero(sum)
	}
}

// values adds the products of a run, two values at a time.
func (m *wordMixer) values(rows, width int, weights, thrice, from, count reg.GPVirtual) {
	name := blockName(rows, width)
	to := func(what string) operand.LabelRef { return operand.LabelRef(what + name) }
	second := m.GP64() // of the pair: where it is from the first one
	m.LEAQ(operand.Mem{Base: weights, Index: count, Scale: 2}, second)
	m.MOVQ(second, m.next)
	m.Label("pair" + name)
	m.CMPQ(count, operand.U8(2))
	m.JGE(to("whole"))
	m.XORQ(second, second) // the last value alone: as a pair whose second weight is 0
	weight := m.GP32()
	for r, f := range m.factors[:rows] {
		m.MOVWLZX(nth(weights, m.stride, thrice, r, 0), weight)
		m.VMOVD(weight, f.AsX())
		m.VPBROADCASTD(f.AsX(), f)
	}
	m.JMP(to("both"))
	m.Label("whole" + name)
	m.MOVQ(m.row, second)
	for r, f := range m.factors[:rows] {
		m.VPBROADCASTD(nth(weights, m.stride, thrice, r, 0), f)
	}
	m.Label("both" + name)
	for v := 0; v < width; v += 2 {
		m.VPMOVSXBW(at(from, v*m.lanes), m.one)
		m.VPMOVSXBW(operand.Mem{Base: from, Index: second, Scale: 1, Disp: v * m.lanes}, m.other)
		m.VPUNPCKLWD(m.other, m.one, m.low)
		m.VPUNPCKHWD(m.other, m.one, m.one)
		for r, f := range m.factors[:rows] {
			m.add(f, m.low, m.sums[r*width+v])
			m.add(f, m.one, m.sums[r*width+v+1])
		}
	}
	m.fetch(2 * width * m.lanes)
	m.ADDQ(operand.U8(4), weights)
	m.LEAQ(operand.Mem{Base: from, Index: m.row, Scale: 2}, from)
	m.SUBQ(operand.U8(2), count)
	m.JGT(to("pair"))
	m.MOVQ(m.next, weights)
}

// add adds products of pairs to sums of 32 bits.
func (m *wordMixer) add(weights, values, sum reg.VecPhysical) {
	if m.wide() {
		m.VPDPWSSD(weights, values, sum)
		return
	}
	m.VPMADDWD(weights, values, m.term)
	m.VPADDD(m.term, sum, sum)
}

// finish adds a block's sums, in the order that unpacking left them in, to acc.
func (m *wordMixer) finish(rows, width int) {
	shrink, steps := m.pointer("shrink"), m.pointer("steps")
	less, step := m.one, m.other
	m.each(rows, width, func(r, i int, place operand.Mem) {
		if i%width == 0 {
			m.VBROADCASTSS(at(shrink, 4*r), less)
			m.VBROADCASTSS(at(steps, 4*r), step)
		}
		if i%2 == 0 {
			m.repack(m.sums[i], m.sums[i+1])
		}
		sum := m.sums[i]
		m.VCVTDQ2PS(sum, sum)
		m.VMULPS(place, less, m.term)
		m.VFMADD231PS(step, sum, m.term)
		m.VMOVUPS(m.term, place)
	})
}

// repack brings two vectors into the order of what was unpacked into them.
func (m *wordMixer) repack(low, high reg.VecPhysical) {
	if m.wide() {
		m.VMOVDQA32(low, m.low)
		m.VPERMT2D(high, m.first, low)
		m.VPERMT2D(high, m.second, m.low)
		m.VMOVDQA32(m.low, high)
		return
	}
	m.VPERM2I128(operand.U8(0x20), high, low, m.low)
	m.VPERM2I128(operand.U8(0x31), high, low, high)
	m.VMOVDQA(m.low, low)
}
