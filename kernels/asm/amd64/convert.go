package main

import "github.com/mmcloughlin/avo/operand"

// convert writes decode and encode of every storage type.
func convert(g *generator) {
	c := &converter{g, map[string]operand.Mem{}}
	c.decodeHalves("decodeF16", func(m operand.Mem) { c.VCVTPH2PS(m, c.vec(0)) })
	c.decodeHalves("decodeBF16", func(m operand.Mem) {
		c.VPMOVZXWD(m, c.vec(0))
		c.VPSLLD(operand.U8(16), c.vec(0), c.vec(0))
	})
	c.encodeF16()
	c.encodeBF16()
	c.finite()
	c.finiteHalves()
	c.scale()
	c.fp8(minifloat{"E4M3", 3, 7, 448})
	c.fp8(minifloat{"E5M2", 2, 15, 57344})
	for _, r := range []rows{{"Int8", 8, true}, {"Int8Asym", 8, false}, {"Int4", 4, false}} {
		c.decodeRows(r)
		c.encodeRows(r)
	}
	c.decodeE2M1("E2M1", "", c.power)
	c.decodeE2M1("NV", ", factor float32", c.small)
	c.encodeMX(minifloat{"E2M1", 1, 1, 6})
	c.encodeNV(minifloat{"E2M1", 1, 1, 6}, minifloat{"E4M3", 3, 7, 448})
	c.decodeChannels()
	c.encodeChannels()
}

func (c *converter) decodeHalves(name string, load func(m operand.Mem)) {
	c.function(name, "func(dst *float32, src *uint16, ahead *byte, n int)", "sets dst to n values, a multiple of 16, and fetches as much from ahead.")
	p := c.loads("dst", "src", "ahead", "n")
	c.sweep("values", p[3], []array{{p[0], 4}, {p[1], 2}, {p[2], 2}}, func(m []operand.Mem) {
		c.PREFETCHT0(m[2])
		load(m[1])
		c.VMOVUPS(c.vec(0), m[0])
	})
	c.end()
}

func (c *converter) encodeF16() {
	c.function("encodeF16", "func(dst *uint16, src *float32, n int)", "stores n values, a multiple of 16, rounded to nearest even.")
	p := c.loads("dst", "src", "n")
	c.sweep("values", p[2], []array{{p[0], 2}, {p[1], 4}}, func(m []operand.Mem) {
		c.VMOVUPS(m[1], c.vec(0))
		c.VCVTPS2PH(operand.U8(0), c.vec(0), m[0])
	})
	c.end()
}

func (c *converter) encodeBF16() {
	c.function("encodeBF16", "func(dst *uint16, src *float32, n int)", "stores n values, a multiple of 16, rounded to nearest even.")
	p := c.loads("dst", "src", "n")
	x, rounded, nan, mask := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	c.sweep("values", p[2], []array{{p[0], 2}, {p[1], 4}}, func(m []operand.Mem) {
		c.VMOVUPS(m[1], x)
		c.VPSRLD(operand.U8(16), x, nan)
		c.and(c.bits(1), nan, rounded)
		c.VPADDD(c.bits(0x7fff), rounded, rounded)
		c.VPADDD(x, rounded, rounded)
		c.VPSRLD(operand.U8(16), rounded, rounded)
		c.or(c.bits(0x40), nan, nan)
		c.and(c.bits(0x7fffffff), x, x)
		c.above(x, infinity, mask)
		c.choose(mask, rounded, nan, x)
		c.storeHalves(x, m[0])
	})
	c.end()
}

func (c *converter) finiteHalves() {
	c.function("finiteHalves", "func(halves *byte, words int, room uint32) bool",
		"reports whether pairs of halves, a multiple of 16, have magnitudes that stay below 1<<15 when room is added, which is a pair too.")
	p := c.loads("halves", "words")
	x, largest, room := c.vec(0), c.vec(1), c.vec(2)
	c.VBROADCASTSS(c.parameter("room"), room)
	c.zero(largest)
	c.sweep("values", p[1], []array{{p[0], 4}}, func(m []operand.Mem) {
		c.move(m[0], x)
		c.and(c.bits(0x7fff7fff), x, x)
		c.VPMAXUW(x, largest, largest)
	})
	c.VPADDW(room, largest, largest)
	if c.wide() {
		c.VEXTRACTI64X4(operand.U8(1), largest, x.AsY())
		c.VPOR(x.AsY(), largest.AsY(), largest.AsY())
	}
	c.VMOVDQU(c.bits(0x80008000), x.AsY())
	ok := c.GP8()
	c.VPTEST(x.AsY(), largest.AsY())
	c.SETEQ(ok)
	c.Store(ok, c.ReturnIndex(0))
	c.end()
}

func (c *converter) scale() {
	c.function("scale", "func(x *float32, n int, by float32)", "multiplies n values, a multiple of 16, by a number.")
	p := c.loads("x", "n")
	by := c.vec(1)
	c.VBROADCASTSS(c.parameter("by"), by)
	c.sweep("values", p[1], []array{{p[0], 4}}, func(m []operand.Mem) {
		c.VMULPS(m[0], by, c.vec(0))
		c.VMOVUPS(c.vec(0), m[0])
	})
	c.end()
}

func (c *converter) finite() {
	c.function("finite", "func(x *float32, n int) bool", "reports whether n values, a multiple of 16, are finite.")
	p := c.loads("x", "n")
	x, largest := c.vec(0), c.vec(1)
	c.zero(largest)
	c.sweep("values", p[1], []array{{p[0], 4}}, func(m []operand.Mem) {
		c.VMOVUPS(m[0], x)
		c.magnitudes(x, largest)
	})
	c.resultFinite(largest, x)
	c.end()
}
