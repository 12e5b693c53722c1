package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

var low4of8 = constant{"low4of8", every(0x0f0f0f0f)}

// formats is the types of weights that have functions of their own.
func formats() []format {
	none := func(*dots, func(int) operand.Mem, operand.Mem) {}
	return []format{
		{name: "Q80", layout: of32, bytes: 34, signed: true, prepare: none, codes: codesQ80, factor: halfAt(0)},
		{name: "Q40", layout: of32, bytes: 18, signed: true, prepare: none, codes: codesQ40, factor: halfAt(0), constants: []constant{low4of8, bytesOf("half4", func(int) byte { return 8 })}},
		{name: "Q50", layout: of32, bytes: 22, signed: true, prepare: none, codes: codesQ50, factor: halfAt(0),
			constants: []constant{low4of8, bytesOf("fifthOf", func(i int) byte { return byte(i / 8) }), bytesOf("bitOf", func(i int) byte { return 1 << (i % 8) }),
				bytesOf("half5", func(int) byte { return 0xf0 })}},
		{name: "IQ4NL", layout: of32, bytes: 18, signed: true, prepare: none, codes: codesOfTable(2), factor: halfAt(0), constants: []constant{low4of8, nonlinear}},
		{name: "MXFP4", layout: of32, bytes: 17, signed: true, prepare: none, codes: codesOfTable(1), factor: exponent, constants: []constant{low4of8, floats4}},
		{name: "Q4K", layout: mins, bytes: 144, prepare: scalesQ4K, codes: codesQ4K, factor: halfAt(0), factorOfMins: halfAt(2), scale: scaleOfByte, constants: []constant{low4of8}},
		{name: "Q5K", layout: mins, bytes: 176, prepare: scalesQ4K, codes: codesQ5K, factor: halfAt(0), factorOfMins: halfAt(2), scale: scaleOfByte,
			constants: []constant{low4of8, bytesOf("fifth", func(int) byte { return 16 })}},
		{name: "Q6K", layout: mins, bytes: 210, prepare: scalesQ6K, codes: codesQ6K, factor: halfAt(208), scale: scaleOfHalves,
			constants: []constant{low4of8, {"bits4and5", every(0x30303030)}}},
		{name: "IQ4XS", layout: of256, bytes: 136, signed: true, scratch: 32, prepare: scalesIQ4XS, codes: codesIQ4XS, factor: halfAt(0),
			scale: scaleOfGroup, constants: []constant{low4of8, nonlinear}},
	}
}

// bytesOf is a constant of 32 bytes.
func bytesOf(name string, b func(i int) byte) constant {
	return constant{name, func(lane int) (word uint32) {
		for i := range 4 {
			word |= uint32(b(4*lane+i)) << (8 * i)
		}
		return word
	}}
}

// tableOf is a constant that has a table of 16 numbers twice.
func tableOf(name string, numbers ...int8) constant {
	return bytesOf(name, func(i int) byte { return byte(numbers[i%16]) })
}

var (
	nonlinear = tableOf("nonlinear", -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
	floats4   = tableOf("floats4", 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12) // twice the numbers of E2M1
)

// halfAt is a factor in binary16.
func halfAt(disp int) func(d *dots, m func(int) operand.Mem, to reg.VecPhysical) {
	return func(d *dots, m func(int) operand.Mem, to reg.VecPhysical) {
		d.VPBROADCASTW(m(disp), d.half(to))
		d.VCVTPH2PS(d.half(to), to)
	}
}

// exponent is a factor of which there is the exponent e, for numbers that are doubled: 2^(e-128), which is subnormal where e is 0 or 1.
func exponent(d *dots, m func(int) operand.Mem, to reg.VecPhysical) {
	e, normal, small := reg.RCX, d.GP64(), d.GP64()
	d.MOVBQZX(m(0), e)
	d.LEAQ(at(e, -1), normal)
	d.SHLQ(operand.U8(23), normal)
	d.MOVQ(operand.U32(0x200000), small)
	d.SHLQ(reg.CL, small)
	d.CMPQ(e, operand.U8(2))
	d.CMOVQLT(small, normal)
	d.VMOVD(normal.As32(), to.AsX())
	d.VBROADCASTSS(to.AsX(), to)
}

// scaleOfGroup is the group's scale, an int32 in scratch.
func scaleOfGroup(d *dots, to reg.VecPhysical, scratch operand.Mem, i int) {
	d.VPBROADCASTW(scratch.Offset(4*i), to)
}

// scaleOfByte is a byte of those that are in both halves of free[5].
func scaleOfByte(d *dots, to reg.VecPhysical, _ operand.Mem, i int) {
	d.VPSHUFB(d.global(constant{fmt.Sprintf("scale%d", i), every(0x80008000 | uint32(i)*0x10001)}), d.free[5], to)
}

// scaleOfHalves is one word of those that are in both halves of free[4] or, of the last groups, free[5], for the lower half, and the next one for the upper half.
func scaleOfHalves(d *dots, to reg.VecPhysical, _ operand.Mem, i int) {
	d.VPSHUFB(d.global(constant{fmt.Sprintf("scales%d", i%4), func(lane int) uint32 {
		at := uint32(4*(i%4) + 2*(lane/4))
		return ((at+1)<<8 | at) * 0x10001
	}}), d.free[4+i/4], to)
}
