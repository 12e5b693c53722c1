package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential is the registers that e to the power of x is found in, for x up to 0: within 1
// unit of the last place, and 0 where the result would not be a normal number.
//
// x is n*ln 2 + r, |r| at most half of ln 2, which is the sum of two constants. e^r is
// 1 + r + r²*P(r), where P has degree 4 and is fitted to the least relative error, 3e-9.
type exponential struct {
	*converter
	x, n, y reg.VecPhysical
	normal  reg.Register // mask
}

// write replaces x.
func (e *exponential) write() {
	const (
		least   = -0x1.5d589ep6 // x whose result is normal
		notLess = 5             // holds for NaN
	)
	e.VMULPS(e.float(math.Log2E), e.x, e.n)
	if e.wide() {
		e.VRNDSCALEPS(operand.U8(0), e.n, e.n)
	} else {
		e.VROUNDPS(operand.U8(0), e.n, e.n)
	}
	e.VCMPPS(operand.U8(notLess), e.float(least), e.x, e.normal)
	e.VFNMADD231PS(e.float(0x1.62e43p-1), e.n, e.x)
	e.VFNMADD231PS(e.float(-0x1.05c61p-29), e.n, e.x)
	e.VMOVUPS(e.float(0.00138144672), e.y)
	for _, c := range []float64{0.00836878084, 0.0416683927, 0.166665196, 0.49999994, 1, 1} {
		e.VFMADD213PS(e.float(c), e.x, e.y)
	}
	if e.wide() {
		e.VSCALEFPS_Z(e.n, e.y, e.normal, e.x)
		return
	}
	e.VCVTPS2DQ(e.n, e.n) // for the exponent
	e.VPSLLD(operand.U8(23), e.n, e.n)
	e.VPADDD(e.n, e.y, e.y)
	e.VANDPS(e.normal, e.y, e.x)
}
