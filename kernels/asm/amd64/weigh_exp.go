package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// exponential finds e to the power of x, for x up to 0, and what it works in: within 1 unit
// of the last place, and 0 where the result would not be a normal number.
//
// x is n*ln 2 + r, |r| at most half of ln 2, which is the sum of two constants. e^r is
// 1 + r + r²*P(r), where P has degree 4 and is fitted to the least relative error, 3e-9.
type exponential struct {
	*converter
	n, y   reg.VecPhysical
	normal reg.Register // mask
}

// of replaces x.
func (e *exponential) of(x reg.VecPhysical) {
	const (
		least   = -0x1.5d589ep6 // x whose result is normal
		notLess = 5             // holds for NaN
	)
	e.VMULPS(e.float(math.Log2E), x, e.n)
	if e.wide() {
		e.VRNDSCALEPS(operand.U8(0), e.n, e.n)
	} else {
		e.VROUNDPS(operand.U8(0), e.n, e.n)
	}
	e.VCMPPS(operand.U8(notLess), e.float(least), x, e.normal)
	e.VFNMADD231PS(e.float(0x1.62e43p-1), e.n, x)
	e.VFNMADD231PS(e.float(-0x1.05c61p-29), e.n, x)
	e.VMOVUPS(e.float(0.00138144672), e.y)
	for _, c := range []float64{0.00836878084, 0.0416683927, 0.166665196, 0.49999994, 1, 1} {
		e.VFMADD213PS(e.float(c), x, e.y)
	}
	if e.wide() {
		e.VSCALEFPS_Z(e.n, e.y, e.normal, x)
		return
	}
	e.VCVTPS2DQ(e.n, e.n) // for the exponent
	e.VPSLLD(operand.U8(23), e.n, e.n)
	e.VPADDD(e.n, e.y, e.y)
	e.VANDPS(e.normal, e.y, x)
}
