package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

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
