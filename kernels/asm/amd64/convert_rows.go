package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rows is a type whose rows have scales of their own (see backend/quant).
type rows struct {
	name      string
	width     int // bits of a code
	symmetric bool
}

const rowsDoc = " rows of dim values, a multiple of 16, in groups with a scale each"

// groups goes through rows of dim values, each in groups, of which the last may be shorter;
// each gets the values of a group in a register that it may change, and end comes after a row.
func (c *converter) groups(dim, group, rows reg.Register, each func(n reg.Register), end func()) {
	left, n := c.GP64(), c.GP64()
	c.Label("row")
	c.MOVQ(dim, left)
	c.Label("group")
	c.MOVQ(group, n)
	c.CMPQ(left, group)
	c.CMOVQLT(left, n)
	c.SUBQ(n, left)
	each(n)
	c.TESTQ(left, left)
	c.JNZ(operand.LabelRef("group"))
	end()
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("row"))
}

func (c *converter) decodeRows(r rows) {
	c.function("decode"+r.name, "func(dst *float32, codes *byte, scales *uint32, dim, group, rows int)", "sets dst to"+rowsDoc+".")
	p := c.loads("dst", "codes", "scales", "dim", "group", "rows")
	scale, zero, x, spare := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.groups(p[3], p[4], p[5], func(n reg.Register) {
		c.VBROADCASTSS(at(p[2], 0), scale)
		c.ADDQ(operand.Imm(4), p[2])
		arrays := []array{{p[0], 4}}
		if !r.symmetric {
			c.unpackWord(scale, zero, r.width)
		}
		if r.width == 8 {
			arrays = append(arrays, array{p[1], 1})
		}
		c.sweep("values", n, arrays, func(m []operand.Mem) {
			switch {
			case r.symmetric:
				c.VPMOVSXBD(m[1], x)
			case r.width == 8:
				c.VPMOVZXBD(m[1], x)
			default:
				c.loadNibbles(at(p[1], 0), x, spare)
				c.ADDQ(operand.Imm(uint64(c.lanes/2)), p[1])
			}
			c.VCVTDQ2PS(x, x)
			if !r.symmetric {
				c.VADDPS(zero, x, x)
			}
			c.VMULPS(scale, x, x)
			c.VMOVUPS(x, m[0])
		})
	}, func() {})
	c.end()
}

// loadNibbles sets x to codes of 4 bits: a byte in each 64 bits, its upper half moved to the
// upper half.
func (c *converter) loadNibbles(m operand.Mem, x, spare reg.Register) {
	c.VPMOVZXBQ(m, x)
	c.VPSLLQ(operand.U8(28), x, spare)
	c.or(spare, x, x)
	c.and(c.bits(15), x, x)
}

// unpackWord turns quant.Words into their steps and zero points, in steps.
func (c *converter) unpackWord(word, zero reg.Register, width int) {
	c.VPSRAD(operand.U8(16), word, zero)
	c.VCVTDQ2PS(zero, zero)
	if width < 8 {
		c.VMULPS(c.float(1/float64(int(1)<<(8-width))), zero, zero)
	}
	c.VPSLLD(operand.U8(16), word, word)
}

func (c *converter) encodeRows(r rows) {
	c.function("encode"+r.name, "func(codes *byte, scales *uint32, src *float32, dim, group, rows int) bool",
		"stores"+rowsDoc+". It is false where a value is not finite.")
	p := c.loads("codes", "scales", "src", "dim", "group", "rows")
	largest, scale, zero, x := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	low, high, a, b := c.vec(4), c.vec(5), c.vec(6), c.vec(7)
	again, count := c.GP64(), c.GP64()
	c.zero(largest)
	c.groups(p[3], p[4], p[5], func(n reg.Register) {
		c.MOVQ(n, count)
		c.MOVQ(p[2], again)
		if r.symmetric {
			c.zero(high)
			c.sweep("span", count, []array{{again, 4}}, func(m []operand.Mem) {
				c.VMOVUPS(m[0], x)
				c.magnitudes(x, high)
			})
			c.VPMAXUD(high, largest, largest)
			c.reduce(high, c.VPMAXUD)
			c.scaleInt8(high.AsX(), scale.AsX(), a.AsX(), b.AsX())
			c.VMOVD(scale.AsX(), at(p[1], 0))
			c.VPBROADCASTD(high.AsX(), scale)
		} else {
			c.VMOVUPS(at(again, 0), low)
			c.VMOVUPS(low, high)
			c.sweep("span", count, []array{{again, 4}}, func(m []operand.Mem) {
				c.VMOVUPS(m[0], x)
				c.VMINPS(x, low, low)
				c.VMAXPS(x, high, high)
				c.magnitudes(x, largest)
			})
			c.reduce(low, c.VMINPS)
			c.reduce(high, c.VMAXPS)
			c.wordOf(low.AsX(), high.AsX(), x.AsX(), a.AsX(), b.AsX(), r.width)
			c.VMOVD(x.AsX(), at(p[1], 0))
			c.VPBROADCASTD(a.AsX(), scale)
			c.VPBROADCASTD(b.AsX(), zero)
		}
		c.ADDQ(operand.Imm(4), p[1])
		arrays := []array{{p[2], 4}}
		if r.width == 8 {
			arrays = append(arrays, array{p[0], 1})
		}
		c.divided("values", n, arrays, scale, func(m []operand.Mem, divide func(x reg.Register)) {
			c.VMOVUPS(m[0], x)
			divide(x)
			if r.symmetric {
				c.VMAXPS(c.float(-127), x, x)
				c.VMINPS(c.float(127), x, x)
				c.VCVTPS2DQ(x, x)
			} else {
				c.code(x, zero, r.width)
			}
			if r.width == 8 {
				c.storeBytes(x, m[1])
			} else {
				c.storeNibbles(x, a, at(p[0], 0))
				c.ADDQ(operand.Imm(uint64(c.lanes/2)), p[0])
			}
		})
	}, func() {})
	c.resultFinite(largest, x)
	c.end()
}

// magnitudes raises largest to the magnitudes of x, as bits, and leaves them in x.
func (c *converter) magnitudes(x, largest reg.Register) {
	c.and(c.bits(0x7fffffff), x, x)
	c.VPMAXUD(x, largest, largest)
}

// reduce leaves in all lower four elements of v what by makes of its elements.
func (c *converter) reduce(v reg.VecPhysical, by func(ops ...operand.Op)) {
	spare := c.vec(8)
	if c.wide() {
		c.VEXTRACTF64X4(operand.U8(1), v, spare.AsY())
		by(spare.AsY(), v.AsY(), v.AsY())
	}
	c.VEXTRACTF128(operand.U8(1), v.AsY(), spare.AsX())
	by(spare.AsX(), v.AsX(), v.AsX())
	for _, order := range []uint8{0b01001110, 0b10110001} {
		c.VPERMILPS(operand.U8(order), v.AsX(), spare.AsX())
		by(spare.AsX(), v.AsX(), v.AsX())
	}
}

// scaleInt8 sets scale to that of a row and largest, its largest magnitude, to what the row
// is divided by: by 1 where all is 0.
func (c *converter) scaleInt8(largest, scale, some, none reg.Register) {
	c.VMINPS(c.float(farthest), largest, largest)
	c.VDIVPS(c.float(127), largest, scale)
	c.isZero(scale, none)
	c.xor(some, some, some)
	c.VPSUBD(largest, some, some)
	c.VPSRLD(operand.U8(31), some, some)
	c.and(none, some, some) // the smallest float32
	c.or(some, scale, scale)
	c.isZero(scale, none)
	c.and(c.float(1), none, none)
	c.or(none, scale, largest)
}

// isZero sets a mask of the elements of x, all of them below 2^31, that are 0.
func (c *converter) isZero(x, mask reg.Register) {
	c.VPSUBD(c.bits(1), x, mask)
	c.VPSRAD(operand.U8(31), mask, mask)
}

// wordOf is quant.WordOf: from the lowest and the highest values, which it overwrites, to
// words, what values are divided by, and zero points.
func (c *converter) wordOf(low, high, word, step, zero reg.Register, width int) {
	top := float64(int(1)<<width - 1)
	for _, end := range []reg.Register{low, high} {
		c.VMAXPS(c.float(-farthest), end, end)
		c.VMINPS(c.float(farthest), end, end)
	}
	c.VMULPS(c.float(0.5), high, high)
	c.VMULPS(c.float(0.5), low, zero)
	c.VSUBPS(zero, high, high)
	c.VDIVPS(c.float(0.5*top), high, high)
	c.and(c.bits(0x7fffffff), low, zero)
	c.VMULPS(c.float(float64(int(1)<<(8-width))/most), zero, zero)
	c.VMAXPS(zero, high, high) // zero, never −0, where both are
	c.VPADDD(c.bits(0xffff), high, high)
	c.VPSRLD(operand.U8(16), high, high)
	c.VPSLLD(operand.U8(16), high, step)
	c.VDIVPS(step, low, low)
	if width < 8 {
		c.VMULPS(c.float(float64(int(1)<<(8-width))), low, low)
	}
	c.VMAXPS(c.float(-most), low, low)
	c.VMINPS(c.float(most), low, low)
	c.VCVTPS2DQ(low, low)
	c.isZero(high, zero)
	c.without(low, zero, low)
	c.and(c.float(1), zero, zero)
	c.or(zero, step, step)
	c.VPSLLD(operand.U8(16), low, word)
	c.or(high, word, word)
	c.VCVTDQ2PS(low, zero)
	if width < 8 {
		c.VMULPS(c.float(1/float64(int(1)<<(8-width))), zero, zero)
	}
}

const (
	most     = 1<<15 - 1 // largest zero point
	farthest = 0x1.ep127 // largest magnitude that scales cover
)

// code turns quotients of values and their step into codes.
func (c *converter) code(x, zero reg.Register, width int) {
	c.VSUBPS(zero, x, x)
	c.VMAXPS(c.float(0), x, x)
	c.VMINPS(c.float(float64(int(1)<<width-1)), x, x)
	c.VCVTPS2DQ(x, x)
}
