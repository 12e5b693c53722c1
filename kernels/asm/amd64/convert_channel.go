package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Keys by channel: a vector of channels at a time, down all rows.

const channelsDoc = " rows of dim values, a multiple of 16, that share a word for each channel"

func (c *converter) decodeChannels() {
	c.function("decodeInt4Channel", "func(dst *float32, codes *byte, words *uint32, dim, rows int)", "sets dst to"+channelsDoc+".")
	p := c.loads("dst", "codes", "words", "dim", "rows")
	step, zero, x, spare := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.channels(p[2], p[0], p[1], p[3], p[4], func(rows func(label string, each func(values, codes operand.Mem))) {
		c.VMOVUPS(at(p[2], 0), step)
		c.unpackWord(step, zero, 4)
		rows("row", func(values, codes operand.Mem) {
			c.loadNibbles(codes, x, spare)
			c.VCVTDQ2PS(x, x)
			c.VADDPS(zero, x, x)
			c.VMULPS(step, x, x)
			c.VMOVUPS(x, values)
		})
	})
	c.end()
}

func (c *converter) encodeChannels() {
	c.function("encodeInt4Channel", "func(codes *byte, words *uint32, src *float32, dim, rows int) bool",
		"stores"+channelsDoc+". It is false where a value is not finite.")
	p := c.loads("codes", "words", "src", "dim", "rows")
	largest, x, low, high := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	word, step, zero := c.vec(4), c.vec(5), c.vec(6)
	c.zero(largest)
	c.channels(p[1], p[2], p[0], p[3], p[4], func(rows func(label string, each func(values, codes operand.Mem))) {
		c.VMOVUPS(at(p[2], 0), low)
		c.VMOVUPS(low, high)
		rows("span", func(values, _ operand.Mem) {
			c.VMOVUPS(values, x)
			c.VMINPS(x, low, low)
			c.VMAXPS(x, high, high)
			c.magnitudes(x, largest)
		})
		c.wordOf(low, high, word, step, zero, 4)
		c.VMOVUPS(word, at(p[1], 0))
		rows("row", func(values, codes operand.Mem) {
			c.VMOVUPS(values, x)
			c.VDIVPS(step, x, x)
			c.code(x, zero, 4)
			c.storeNibbles(x, word, codes)
		})
	})
	c.resultFinite(largest, x)
	c.end()
}

// channels goes through dim channels, a vector of them at a time: words, values and codes are
// at those of the first row. each may go through the rows, as often as it likes.
func (c *converter) channels(words, values, codes, dim, n reg.Register, each func(rows func(label string, each func(values, codes operand.Mem)))) {
	left, row, rowCodes, rows := c.GP64(), c.GP64(), c.GP64(), c.GP64()
	valuesStep, codesStep := c.GP64(), c.GP64()
	c.MOVQ(dim, left)
	c.MOVQ(dim, valuesStep)
	c.SHLQ(operand.U8(2), valuesStep)
	c.MOVQ(dim, codesStep)
	c.SHRQ(operand.U8(1), codesStep)
	c.Label("channels")
	each(func(label string, each func(values, codes operand.Mem)) {
		c.MOVQ(values, row)
		c.MOVQ(codes, rowCodes)
		c.MOVQ(n, rows)
		c.Label(label)
		each(at(row, 0), at(rowCodes, 0))
		c.ADDQ(valuesStep, row)
		c.ADDQ(codesStep, rowCodes)
		c.DECQ(rows)
		c.JNZ(operand.LabelRef(label))
	})
	c.ADDQ(operand.Imm(uint64(4*c.lanes)), words)
	c.ADDQ(operand.Imm(uint64(4*c.lanes)), values)
	c.ADDQ(operand.Imm(uint64(c.lanes/2)), codes)
	c.SUBQ(operand.Imm(uint64(c.lanes)), left)
	c.JNZ(operand.LabelRef("channels"))
}
