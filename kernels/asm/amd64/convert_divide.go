package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// divided is a sweep over values that are divided by the same number, quotients
// rounded as by a division, which takes a processor longer than all else that is done with a
// value. Registers 9 to 12 are its own. Quotients are above -2^20; those beyond 2^20 may come out as
// 2^20.
//
// A quotient is near the product with the reciprocal; twice it is corrected by what is left
// of the dividend, which one multiplication and addition finds exactly. By a theorem of
// Markstein (IBM Journal of Research and Development 34, 1990) the second correction rounds
// to nearest. Where a divisor is so small that what is left may not be a normal number, or is
// negative or infinite, values are divided.
func (c *converter) divided(label string, n reg.Register, arrays []array, by reg.VecPhysical, each func(m []operand.Mem, divide func(x reg.Register))) {
	const smallest = (127 - 80) << 23 // bits of 2^-80
	reciprocal, quotient, rest, most := c.vec(9), c.vec(10), c.vec(11), c.vec(12)
	bits := c.GP32()
	c.VMOVD(by.AsX(), bits)
	c.SUBL(operand.U32(smallest), bits)
	c.CMPL(bits, operand.U32(infinity-smallest))
	c.JCC(operand.LabelRef(label + "Exactly"))
	c.VMOVUPS(c.float(1), reciprocal)
	c.VDIVPS(by, reciprocal, reciprocal)
	c.VMULPS(c.float(1<<20), by, most)
	c.sweep(label, n, arrays, func(m []operand.Mem) {
		each(m, func(x reg.Register) {
			c.VMINPS(x, most, x) // no quotient overflows, and NaN stays
			c.VMULPS(x, reciprocal, quotient)
			c.VMOVAPS(x, rest)
			c.VFNMADD231PS(by, quotient, rest)
			c.VFMADD231PS(reciprocal, rest, quotient)
			c.VFNMADD231PS(by, quotient, x)
			c.VFMADD213PS(quotient, reciprocal, x)
		})
	})
	c.JMP(operand.LabelRef(label + "Divided"))
	c.Label(label + "Exactly")
	c.sweep(label+"EachExactly", n, arrays, func(m []operand.Mem) {
		each(m, func(x reg.Register) { c.VDIVPS(by, x, x) })
	})
	c.Label(label + "Divided")
}
