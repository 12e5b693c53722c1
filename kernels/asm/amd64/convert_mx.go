package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Rows of 4-bit floats whose groups share a power of two (see quant.EncodeMX) or an 8-bit float times the
// factor of a head (quant.EncodeNV): a byte of the scales is a group's, and a row's begin with a word.

// decodeE2M1 writes the function that reads rows, for a way to unpack bytes; of a factor there is a parameter.
func (c *converter) decodeE2M1(name, factor string, unpack func(x, spare reg.Register)) {
	c.function("decode"+name, "func(dst *float32, codes *byte, scales *uint32, dim, group, rows int"+factor+")", "sets dst to"+rowsDoc+".")
	p := c.loads("dst", "codes", "scales", "dim", "group", "rows")
	scale, x, spare, by := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	if factor != "" {
		c.VBROADCASTSS(c.parameter("factor"), by)
	}
	c.groups(p[3], p[4], p[5], func(n reg.Register) {
		c.VPBROADCASTB(at(p[2], 0), scale)
		c.INCQ(p[2])
		c.VPSRLD(operand.U8(24), scale, scale)
		unpack(scale, spare)
		if factor != "" {
			c.VMULPS(by, scale, scale)
		}
		c.sweep("values", n, []array{{p[0], 4}}, func(m []operand.Mem) {
			c.loadNibbles(at(p[1], 0), x, spare)
			c.ADDQ(operand.Imm(uint64(c.lanes/2)), p[1])
			by := scale
			if !c.wide() { // whose table has magnitudes
				by = spare
				c.VPSLLD(operand.U8(28), x, by)
				c.VPAND(c.bits(1<<31), by, by)
				c.VPOR(scale, by, by)
			}
			c.VPERMPS(c.words(e2m1.name, e2m1.word), x, x)
			c.VMULPS(by, x, x)
			c.VMOVUPS(x, m[0])
		})
	}, func() {
		c.ADDQ(operand.Imm(3), p[2])
		c.ANDQ(operand.I8(-4), p[2])
	})
	c.end()
}

func (c *converter) encodeMX(t minifloat) {
	c.function("encode"+t.name, "func(codes *byte, scales *uint32, src *float32, dim, group, rows int) bool",
		"stores"+rowsDoc+". It is false where a value is not finite.")
	p := c.loads("codes", "scales", "src", "dim", "group", "rows")
	largest, high, by, x := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	a, small, code := c.vec(4), c.vec(5), c.vec(6)
	again, count := c.GP64(), c.GP64()
	c.zero(largest)
	c.groups(p[3], p[4], p[5], func(n reg.Register) {
		c.MOVQ(n, count)
		c.MOVQ(p[2], again)
		c.zero(high)
		c.sweep("span", count, []array{{again, 4}}, func(m []operand.Mem) {
			c.VMOVUPS(m[0], x)
			c.magnitudes(x, high)
		})
		c.VPMAXUD(high, largest, largest)
		c.reduce(high, c.VPMAXUD)
		c.VPSRLD(operand.U8(23), high.AsX(), high.AsX())
		c.VPSUBUSW(c.bits(2), high.AsX(), high.AsX()) // 0 where it would be less
		c.VPEXTRB(operand.U8(0), high.AsX(), at(p[1], 0))
		c.INCQ(p[1])
		c.VMOVDQU(c.bits(254), x.AsX())
		c.VPSUBD(high.AsX(), x.AsX(), x.AsX())
		c.VPSLLD(operand.U8(23), x.AsX(), x.AsX())
		c.VPBROADCASTD(x.AsX(), by)
		c.sweep("values", n, []array{{p[2], 4}}, func(m []operand.Mem) {
			c.VMULPS(m[0], by, x)
			c.and(c.bits(0x7fffffff), x, a)
			c.nearest(t, a, small, code)
			c.VPSRLD(operand.U8(28), x, x)
			c.and(c.bits(8), x, x)
			c.or(x, code, code)
			c.storeNibbles(code, a, at(p[0], 0))
			c.ADDQ(operand.Imm(uint64(c.lanes/2)), p[0])
		})
	}, func() { c.padded(p[1]) })
	c.resultFinite(largest, x)
	c.end()
}

// padded clears bytes up to a word.
func (c *converter) padded(bytes reg.Register) {
	c.Label("padding")
	c.TESTQ(operand.U32(3), bytes)
	c.JZ(operand.LabelRef("padded"))
	c.MOVB(operand.Imm(0), at(bytes, 0))
	c.INCQ(bytes)
	c.JMP(operand.LabelRef("padding"))
	c.Label("padded")
}

// encodeNV stores codes t of values over steps, which are bytes of scale times a factor. Under a step of 0
// values are divided by infinity.
func (c *converter) encodeNV(t, scale minifloat) {
	c.function("encodeNV", "func(codes *byte, scales *uint32, src *float32, dim, group, rows int, factor float32) bool",
		"stores"+rowsDoc+", relative to a factor. It is false where a value is not finite.")
	p := c.loads("codes", "scales", "src", "dim", "group", "rows")
	largest, high, by, x := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	a, small, code, factor := c.vec(4), c.vec(5), c.vec(6), c.vec(7)
	again, count := c.GP64(), c.GP64()
	c.zero(largest)
	c.VBROADCASTSS(c.parameter("factor"), factor.AsX())
	c.groups(p[3], p[4], p[5], func(n reg.Register) {
		c.MOVQ(n, count)
		c.MOVQ(p[2], again)
		c.zero(high)
		c.sweep("span", count, []array{{again, 4}}, func(m []operand.Mem) {
			c.VMOVUPS(m[0], x)
			c.magnitudes(x, high)
		})
		c.VPMAXUD(high, largest, largest)
		c.reduce(high, c.VPMAXUD)
		c.VMINPS(c.float(farthest), high.AsX(), high.AsX())
		c.VDIVPS(c.float(t.max), high.AsX(), high.AsX())
		c.VDIVPS(factor.AsX(), high.AsX(), high.AsX())
		c.nearest(scale, high.AsX(), small.AsX(), code.AsX())
		c.VPEXTRB(operand.U8(0), code.AsX(), at(p[1], 0))
		c.INCQ(p[1])
		c.small(code.AsX(), small.AsX())
		c.VMULPS(factor.AsX(), code.AsX(), code.AsX())
		c.isZero(code.AsX(), small.AsX())
		c.and(c.bits(infinity), small.AsX(), small.AsX())
		c.or(small.AsX(), code.AsX(), code.AsX())
		c.VPBROADCASTD(code.AsX(), by)
		c.divided("values", n, []array{{p[2], 4}}, by, func(m []operand.Mem, divide func(x reg.Register)) {
			c.VMOVUPS(m[0], x)
			c.and(c.bits(0x7fffffff), x, a)
			divide(a)
			c.nearest(t, a, small, code)
			c.VPSRLD(operand.U8(28), x, x)
			c.and(c.bits(8), x, x)
			c.or(x, code, code)
			c.storeNibbles(code, a, at(p[0], 0))
			c.ADDQ(operand.Imm(uint64(c.lanes/2)), p[0])
		})
	}, func() { c.padded(p[1]) })
	c.resultFinite(largest, x)
	c.end()
}
