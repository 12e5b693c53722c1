package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fold writes the function that moves the scales of values into their factors.
func fold(c *converter) {
	c.function("fold", "func(dst, p *float32, stride, width, rows int, values *byte, runs int)",
		"sets rows of dst, width elements apart, to the products of rows of p and the factors of runs of values.")
	args := c.loads("dst", "p", "stride", "width")
	dst, p, stride, width := args[0], args[1], args[2], args[3]
	run, n, scales, to, from, rows := c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64(), c.GP64()
	x, scale, inside := c.vec(0), c.vec(1), c.mask(2)
	c.SHLQ(operand.U8(2), stride)
	c.SHLQ(operand.U8(2), width)
	c.Label("run")
	c.Load(c.Param("values"), run)
	c.MOVQ(at(run, storedRows), n)
	c.MOVQ(at(run, storedFactors), scales)
	c.ADDQ(operand.U8(storedSize), run)
	c.MOVQ(run, c.parameter("values"))
	c.MOVQ(dst, to)
	c.MOVQ(p, from)
	c.Load(c.Param("rows"), rows)
	c.Label("row")
	c.ragged("factors", n, inside, x, func(offset reg.Register) {
		c.loadInside(operand.Mem{Base: scales, Index: offset, Scale: 1}, inside, scale)
		c.loadInside(operand.Mem{Base: from, Index: offset, Scale: 1}, inside, x)
		c.VMULPS(scale, x, x)
		c.storeInside(x, inside, operand.Mem{Base: to, Index: offset, Scale: 1})
	})
	c.ADDQ(stride, from)
	c.ADDQ(width, to)
	c.DECQ(rows)
	c.JNZ(operand.LabelRef("row"))
	c.LEAQ(operand.Mem{Base: dst, Index: n, Scale: 4}, dst)
	c.LEAQ(operand.Mem{Base: p, Index: n, Scale: 4}, p)
	c.DECQ(c.parameter("runs"))
	c.JNZ(operand.LabelRef("run"))
	c.end()
}
