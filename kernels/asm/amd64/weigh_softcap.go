package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// softcap writes kernels.softcap: tanh |z| is (1 − e)/(1 + e), where e is e to the power of
// −2|z|. What that loses of a small z is small beside the limit.
func softcap(c *converter) {
	c.function("softcap", "func(row *float32, n int, by, limit float32)", "is kernels.softcap for n scores.")
	row, n := c.pointer("row"), c.pointer("n")
	x, sign, by, limit, one, inside := c.vec(4), c.vec(5), c.vec(6), c.vec(7), c.vec(9), c.mask(10)
	exp := exponential{converter: c, n: c.vec(1), y: c.vec(2), normal: c.mask(3)}
	c.VBROADCASTSS(c.parameter("by"), by)
	c.VBROADCASTSS(c.parameter("limit"), limit)
	c.VMOVUPS(c.float(1), one)
	c.ragged("scores", n, inside, x, func(offset reg.Register) {
		m := operand.Mem{Base: row, Index: offset, Scale: 1}
		c.loadInside(m, inside, x)
		c.VMULPS(by, x, x)
		c.VDIVPS(limit, x, x)
		c.and(c.bits(1<<31), x, sign)
		c.or(c.bits(1<<31), x, x)
		c.VADDPS(x, x, x)
		exp.of(x)
		c.VADDPS(one, x, exp.y)
		c.VSUBPS(x, one, x)
		c.VDIVPS(exp.y, x, x)
		c.VMULPS(limit, x, x)
		c.or(sign, x, x)
		c.storeInside(x, inside, m)
	})
	c.end()
}
