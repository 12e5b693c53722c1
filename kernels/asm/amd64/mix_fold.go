package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fold writes the function that moves the scales of values into their factors.
func fold(c *converter) {
	c.function("fold", "func(dst, p *float32, stride, n, rows int, scales *float32)",
		"sets rows of n elements of dst, back to back, to the products of a row of p and the scales.")
	args := c.loads("dst", "p", "stride", "n", "rows", "scales")
	dst, p, stride, n, rows, scales := args[0], args[1], args[2], args[3], args[4], args[5]
	x, scale, inside := c.vec(0), c.vec(1), c.mask(2)
	c.SHLQ(operand.U8(2), stride)
	c.Label("row")
	c.ragged("factors", n, inside, x, func(offset reg.Register) {
		c.loadInside(operand.Mem{Base: scales, Index: offset, Scale: 1}, inside, scale)
		c.loadInside(operand.Mem{Base: p, Index: offset, Scale: 1}, inside, x)
		c.VMULPS(scale, x, x)
		c.storeInside(x, inside, operand.Mem{Base: dst, Index: offset, Scale: 1})
	})
	c.ADDQ(stride, p)
	c.LEAQ(operand.Mem{Base: dst, Index: n, Scale: 4}, dst)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("row"))
	c.end()
}
