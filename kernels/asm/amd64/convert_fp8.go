package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// minifloat is one of the small floats (see backend/quant).
type minifloat struct {
	name     string
	fraction int // bits of it
	bias     int // of the exponent
	max      float64
}

func (c *converter) fp8(t minifloat) {
	c.decodeFP8(t)
	c.encodeFP8(t)
}

// decodeFP8 reads a code as the upper bits of a binary16, whose exponent has one bit more
// than that of E4M3 and the bias of E5M2's.
func (c *converter) decodeFP8(t minifloat) {
	c.function("decode"+t.name, "func(dst *float32, codes *byte, scale float32, n int)", "sets dst to n values, a multiple of 16.")
	p := c.loads("dst", "codes", "n")
	scale, x, sign, mask := c.vec(0), c.half(1), c.half(2), c.half(3)
	c.VBROADCASTSS(c.parameter("scale"), scale)
	c.sweep("values", p[2], []array{{p[0], 4}, {p[1], 1}}, func(m []operand.Mem) {
		c.VPMOVZXBW(m[1], x)
		c.VPSLLW(operand.U8(8), x, x)
		if t.fraction == 3 {
			c.VPAND(c.bits(0x80008000), x, sign)
			c.VPADDW(x, x, x) // without the sign
			c.VPCMPEQW(c.bits(0xfe00fe00), x, mask)
			c.VPSRLW(operand.U8(2), x, x)
			c.VPOR(sign, x, x)
			c.VPOR(mask, x, x) // NaN
		}
		c.VCVTPH2PS(x, c.vec(1))
		if t.fraction == 3 {
			c.VMULPS(c.float(256), c.vec(1), c.vec(1)) // the biases are 8 apart
		}
		c.VMULPS(scale, c.vec(1), c.vec(1))
		c.VMOVUPS(c.vec(1), m[0])
	})
	c.end()
}

func (c *converter) encodeFP8(t minifloat) {
	c.function("encode"+t.name, "func(codes *byte, src *float32, scale float32, n int) bool",
		"stores n values, a multiple of 16, divided by scale. It is false where one is not finite.")
	p := c.loads("codes", "src", "n")
	scale, largest, x, a := c.vec(0), c.vec(1), c.vec(2), c.vec(3)
	small, code, mask := c.vec(4), c.vec(5), c.vec(6)
	c.VBROADCASTSS(c.parameter("scale"), scale)
	c.zero(largest)
	c.divided("values", p[2], []array{{p[0], 1}, {p[1], 4}}, scale, func(m []operand.Mem, divide func(x reg.Register)) {
		c.VMOVUPS(m[1], a)
		c.magnitudes(a, largest)
		divide(a)
		c.and(c.bits(0x7fffffff), a, a)
		c.above(a, infinity, mask)
		c.nearest(t, a, small, code)
		c.xor(m[1], scale, x) // the quotient's sign
		c.VPSRLD(operand.U8(24), x, x)
		c.and(c.bits(0x80), x, x)
		c.or(x, code, code)
		c.VMOVUPS(c.bits(0x7f), small)
		c.choose(mask, code, small, code)
		c.storeBytes(code, m[0])
	})
	c.resultFinite(largest, x)
	c.end()
}

// nearest sets code to the code nearest to the magnitude a, ties to even. It overwrites a and small.
func (c *converter) nearest(t minifloat, a, small, code reg.Register) {
	drop := uint8(23 - t.fraction)
	smallest := uint32(127+1-t.bias) << 23 // of the normal values, as bits
	c.VPMINUD(c.float(t.max), a, a)
	c.VMULPS(c.bits(uint32(127+t.bias-1+t.fraction)<<23), a, small)
	c.VCVTPS2DQ(small, small)
	c.VPSRLD(operand.U8(drop), a, code)
	c.and(c.bits(1), code, code)
	c.VPADDD(c.bits(1<<(drop-1)-1), code, code)
	c.VPADDD(a, code, code)
	c.VPSRLD(operand.U8(drop), code, code)
	c.VPSUBD(c.bits(uint32(127-t.bias)<<t.fraction), code, code)
	c.VPSUBD(c.bits(smallest), a, a)
	c.VPSRAD(operand.U8(31), a, a)
	c.choose(a, code, small, code)
}
