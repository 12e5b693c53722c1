package quant

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// F16 is the IEEE 754 binary16 nearest to f. Values beyond ±65504 become
// infinite, NaN stays a (quiet) NaN.
func F16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits & 0x7fffffff
	switch {
	case abs > 0x7f800000: // NaN: keep the upper payload bits
		return sign | 0x7e00 | uint16(abs>>13)&0x01ff
	case abs >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case abs < 0x38800000: // below the smallest normal, 2⁻¹⁴: let the adder round at 2⁻²⁴
		m := math.Float32frombits(abs) + 0.5
		return sign | uint16(math.Float32bits(m)-0x3f000000)
	}
	abs += 0xfff + abs>>13&1 // round at bit 13, ties to even
	return sign | uint16((abs-0x38000000)>>13)
}

// FromF16 is the value of a binary16.
func FromF16(h uint16) float32 {
	bits := uint32(int32(int16(h))) << 13 & 0x8fffe000 // sign, exponent and fraction in their places
	if h&0x7c00 == 0x7c00 {                            // infinite or NaN
		return math.Float32frombits(bits | 0x7f800000)
	}
	return math.Float32frombits(bits) * 0x1p112 // moves the exponent's bias and normalises subnormals
}

// BF16 is the bfloat16 nearest to f; NaN stays a (quiet) NaN.
func BF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// FromBF16 is the value of a bfloat16.
func FromBF16(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// Round is f rounded to dt, which is F32, F16 or BF16; for other types it is f.
func Round(dt backend.DType, f float32) float32 {
	switch dt {
	case backend.F16:
		return FromF16(F16(f))
	case backend.BF16:
		return FromBF16(BF16(f))
	}
	return f
}
