package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mixWords writes the function that mixes values of signed bytes by weights of 16 bits: products of
// two values and their weights are added as integers at once. Blocks are as mixer's.
func mixWords(c *converter) {
	m := wordMixer{converter: c}
	m.function("mixWords", "func(acc, shrink, steps *float32, weights *uint16, stride int, values *byte, runs, dim, rows int)",
		"multiplies rows of acc by shrink, and adds to each its step times the sums of its weights, stride apart, times runs of values of dim bytes, a multiple of 32.")
	m.runs, m.next = m.AllocLocal(8), m.AllocLocal(8)
	m.row, m.stride, m.col = m.pointer("dim"), m.pointer("stride"), m.GP64()
	m.run, m.ahead, m.later = m.GP64(), m.GP64(), m.GP64()
	m.SHLQ(operand.U8(1), m.stride)
	m.sums = m.vecs(0, m.regs/2)
	m.factors = m.vecs(m.regs/2, mostRows)
	free := m.regs/2 + mostRows
	m.one, m.other, m.low, m.term = m.vec(free), m.vec(free+1), m.vec(free+2), m.vec(free+3)
	if m.wide() {
		m.first, m.second = m.vec(free+4), m.vec(free+5)
		m.move(m.words("firstOfUnpacked", unpacked(0)), m.first)
		m.move(m.words("secondOfUnpacked", unpacked(2)), m.second)
	}
	for rows := mostRows; rows > 0; rows-- {
		m.rows(rows)
	}
	m.Label("rows0")
	m.end()
}

// unpacked is the index of words behind an unpacking of two vectors: parts from one on, of the
// lower and the upper result in turns.
func unpacked(part int) func(i int) uint32 {
	return func(i int) uint32 { return uint32(i/4%2*16 + (part+i/8)*4 + i%4) }
}

// wordMixer is the text of mixWords.
type wordMixer struct {
	*converter
	runs, next    operand.Mem // runs that are left, and where the weights of the next one are
	row, stride   reg.GPVirtual
	col           reg.GPVirtual // first column of the block
	run           reg.GPVirtual
	ahead, later  reg.GPVirtual
	sums, factors []reg.VecPhysical
	one, other    reg.VecPhysical // values
	low, term     reg.VecPhysical
	first, second reg.VecPhysical // indices that undo unpacking
}

// rows writes the loop over blocks of so many rows.
func (m *wordMixer) rows(rows int) {
	m.Label(fmt.Sprintf("rows%d", rows))
	m.CMPQ(m.parameter("rows"), operand.U8(rows))
	m.JLT(operand.LabelRef(fmt.Sprintf("rows%d", rows-1)))
	m.XORQ(m.col, m.col)
	for width := 4; width > 1; width /= 2 {
		if rows*width <= len(m.sums) {
			m.columns(rows, width)
		}
	}
	step := m.pointer("dim")
	m.IMUL3Q(operand.U8(4*rows), step, step)
	m.ADDQ(step, m.parameter("acc"))
	m.IMUL3Q(operand.U8(rows), m.stride, step)
	m.ADDQ(step, m.parameter("weights"))
	m.ADDQ(operand.U8(4*rows), m.parameter("shrink"))
	m.ADDQ(operand.U8(4*rows), m.parameter("steps"))
	m.SUBQ(operand.U8(rows), m.parameter("rows"))
	m.JMP(operand.LabelRef(fmt.Sprintf("rows%d", rows)))
}

// columns writes the loop over blocks of so many rows and vectors.
func (m *wordMixer) columns(rows, width int) {
	name := fmt.Sprintf("%dx%d", rows, width)
	to := func(what string) operand.LabelRef { return operand.LabelRef(what + name) }
	columns := width * m.lanes
	end := m.GP64()
	m.Label("block" + name)
	m.LEAQ(at(m.col, columns), end)
	m.CMPQ(end, m.row)
	m.JGT(to("rest"))
	sums := m.sums[:rows*width]
	for _, sum := range sums {
		m.zero(sum)
	}
	weights, thrice, count, from := m.pointer("weights"), m.GP64(), m.GP64(), m.GP64()
	m.LEAQ(operand.Mem{Base: m.stride, Index: m.stride, Scale: 2}, thrice)
	m.Load(m.Param("values"), m.run)
	m.MOVQ(m.parameter("runs"), count)
	m.MOVQ(count, m.runs)

	m.Label("run" + name)
	m.ofRun(m.run, from, m.ahead, m.later)
	m.ADDQ(m.col, from)
	m.MOVQ(at(m.run, storedRows), count)
	m.IMULQ(m.col, count)
	m.ADDQ(count, m.ahead)
	m.MOVQ(at(m.run, storedRows), count)
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
		if m.wide() {
			m.VPBROADCASTD(weight, f)
		} else {
			m.VMOVD(weight, f.AsX())
			m.VPBROADCASTD(f.AsX(), f)
		}
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
			m.add(f, m.low, sums[r*width+v])
			m.add(f, m.one, sums[r*width+v+1])
		}
	}
	for line := 0; line < 2*columns; line += 64 {
		m.ask(m.ahead, m.later, line)
	}
	m.ADDQ(operand.U32(2*columns), m.ahead)
	m.ADDQ(operand.U8(4), weights)
	m.LEAQ(operand.Mem{Base: from, Index: m.row, Scale: 2}, from)
	m.SUBQ(operand.U8(2), count)
	m.JGT(to("pair"))
	m.MOVQ(m.next, weights)
	m.ADDQ(operand.U8(storedSize), m.run)
	m.DECQ(m.runs)
	m.JNZ(to("run"))

	m.finish(rows, width)
	m.MOVQ(end, m.col)
	m.JMP(to("block"))
	m.Label("rest" + name)
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
	acc, shrink, steps, row := m.pointer("acc"), m.pointer("shrink"), m.pointer("steps"), m.GP64()
	m.LEAQ(operand.Mem{Base: acc, Index: m.col, Scale: 4}, acc)
	m.MOVQ(m.row, row)
	m.SHLQ(operand.U8(2), row)
	less, step := m.one, m.other
	for r := range rows {
		m.VBROADCASTSS(at(shrink, 4*r), less)
		m.VBROADCASTSS(at(steps, 4*r), step)
		for v := 0; v < width; v += 2 {
			low, high := m.sums[r*width+v], m.sums[r*width+v+1]
			if m.wide() {
				m.VMOVDQA32(low, m.low)
				m.VPERMT2D(high, m.first, m.low)
				m.VPERMT2D(high, m.second, low)
			} else {
				m.VPERM2I128(operand.U8(0x20), high, low, m.low)
				m.VPERM2I128(operand.U8(0x31), high, low, low)
			}
			for i, sum := range []reg.VecPhysical{m.low, low} {
				m.VCVTDQ2PS(sum, sum)
				m.VMULPS(at(acc, 4*m.lanes*(v+i)), less, m.term)
				m.VFMADD231PS(step, sum, m.term)
				m.VMOVUPS(m.term, at(acc, 4*m.lanes*(v+i)))
			}
		}
		m.ADDQ(row, acc)
	}
}

// roundRows writes the function that makes weights of 16 bits.
func roundRows(c *converter) {
	const most, small = 1<<15 - 1, (127 - 100) << 23 // the latter bits of 2^-100
	c.function("roundRows", "func(dst *uint16, steps, src *float32, stride, n, rows int)",
		"sets rows of dst, stride elements apart, to those of src, n numbers each back to back, in steps of which the largest has 32767; a step is NaN where a number is not finite. It writes up to a vector beyond n.")
	args := c.loads("dst", "steps", "src", "stride", "n", "rows")
	dst, steps, src, stride, n, rows := args[0], args[1], args[2], args[3], args[4], args[5]
	largest, x, inside := c.vec(0), c.vec(1), c.mask(2)
	by, before, bits := c.vec(3), c.vec(4), c.GP32()
	c.SHLQ(operand.U8(1), stride)
	c.Label("row")
	c.zero(largest)
	c.ragged("largest", n, inside, x, func(offset reg.Register) {
		c.loadInside(operand.Mem{Base: src, Index: offset, Scale: 1}, inside, x)
		c.and(c.bits(0x7fffffff), x, x)
		c.VPMAXUD(x, largest, largest)
	})
	if c.wide() {
		c.VEXTRACTI64X4(operand.U8(1), largest, x.AsY())
		c.VPMAXUD(x.AsY(), largest.AsY(), largest.AsY())
	}
	c.VEXTRACTI128(operand.U8(1), largest.AsY(), x.AsX())
	c.VPMAXUD(x.AsX(), largest.AsX(), largest.AsX())
	for _, order := range []operand.U8{0x4e, 0xb1} {
		c.VPSHUFD(order, largest.AsX(), x.AsX())
		c.VPMAXUD(x.AsX(), largest.AsX(), largest.AsX())
	}
	c.VMOVD(largest.AsX(), bits)
	c.CMPL(bits, operand.U32(infinity))
	c.JCS(operand.LabelRef("finite"))
	c.MOVL(operand.U32(0x7fc00000), operand.Mem{Base: steps})
	c.JMP(operand.LabelRef("next"))

	c.Label("finite")
	c.VMULSS(c.float(1.0/most), largest.AsX(), x.AsX())
	c.VMOVSS(x.AsX(), at(steps, 0))
	c.VMOVUPS(c.float(1), before)
	c.zero(by)
	c.TESTL(bits, bits)
	c.JEQ(operand.LabelRef("round"))
	c.CMPL(bits, operand.U32(small))
	c.JCC(operand.LabelRef("divide"))
	c.VMOVUPS(c.float(1<<100), before) // or the quotient could be too large
	c.VMULSS(before.AsX(), largest.AsX(), largest.AsX())
	c.Label("divide")
	c.VMOVSS(c.float(most), by.AsX())
	c.VDIVSS(largest.AsX(), by.AsX(), by.AsX())
	c.VBROADCASTSS(by.AsX(), by)
	c.Label("round")
	c.ragged("weights", n, inside, x, func(offset reg.Register) {
		c.loadInside(operand.Mem{Base: src, Index: offset, Scale: 1}, inside, x)
		c.VMULPS(before, x, x)
		c.VMULPS(by, x, x)
		c.VCVTPS2DQ(x, x)
		half := c.GP64()
		c.MOVQ(offset, half)
		c.SHRQ(operand.U8(1), half)
		to := operand.Mem{Base: dst, Index: half, Scale: 1}
		if c.wide() {
			c.VPMOVDW(x, to)
			return
		}
		c.VEXTRACTI128(operand.U8(1), x, largest.AsX())
		c.VPACKSSDW(largest.AsX(), x.AsX(), x.AsX())
		c.VMOVDQU(x.AsX(), to)
	})

	c.Label("next")
	c.ADDQ(stride, dst)
	c.LEAQ(operand.Mem{Base: src, Index: n, Scale: 4}, src)
	c.ADDQ(operand.U8(4), steps)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("row"))
	c.end()
}
