package quant

import "math"

// Rows of 4-bit floats whose groups share an 8-bit float, as NVIDIA's NVFP4 has them: value = step *
// code, where a code is E2M1 (see mx.go) and step = factor * byte, as a float32. The byte is E4M3; four
// lie in a word as exponents do. The factor is the head's and comes from outside: a model's scale of
// its layer's keys or values.

// NaNFactor is the byte of a group whose values are all NaN.
const NaNFactor = 0x7f

// StepNV is the step of a group: what the code 1 is worth.
func StepNV(b uint8, factor float32) float32 { return e4m3.values[b] * factor }

// FactorNV is the byte of a group with the given largest magnitude, which is finite: the E4M3 nearest to
// what makes that, or 0x1.ep127 if it is larger, the largest code. Beyond 448 it is that, and values are
// saturated.
func FactorNV(largest, factor float32) uint8 {
	return e4m3.code(float32(min(largest, farthest)/e2m1.max) / factor)
}

// EncodeNV stores the row x in groups of the given size, a multiple of 8; the last one may be
// shorter. Codes are rounded to nearest, ties to even; the largest is 6, and those of a group whose
// step is 0 are 0, too. It is false when a value is not finite, and codes and words are then
// undefined; with saturate it replaces such values in x first (see Saturate). The factor is positive.
func EncodeNV(codes []byte, words []uint32, x []float32, group int, factor float32, saturate bool) bool {
	p := packer{to: codes, bits: e2m1.bits}
	for i := 0; len(x) > 0; i++ {
		n := min(group, len(x))
		lo, hi, ok := finiteSpan(x[:n], saturate)
		if !ok {
			return false
		}
		b := FactorNV(max(abs(lo), abs(hi)), factor)
		PutExponent(words, i, b)
		by := StepNV(b, factor)
		if by == 0 {
			by = float32(math.Inf(1))
		}
		for _, v := range x[:n] {
			p.put(uint32(e2m1.code(v / by)))
		}
		x = x[n:]
	}
	p.flush()
	return true
}

// DecodeNV computes the values of a row.
func DecodeNV(dst []float32, codes []byte, words []uint32, group int, factor float32) {
	for i := 0; len(dst) > 0; i++ {
		n := min(group, len(dst))
		decodeE2M1(dst[:n], codes, StepNV(Exponent(words, i), factor))
		dst, codes = dst[n:], codes[PackedLen(n, e2m1.bits):]
	}
}

// BoundNV is the largest difference between a finite x and its stored value in a group with the given
// step: half the distance between neighbouring codes, or the distance to the largest one, and what
// rounding adds to it.
func BoundNV(x, step float32) float64 {
	return boundE2M1(math.Abs(float64(x)), float64(step))*(1+0x1p-18) + math.Abs(float64(x))*0x1p-22 + math.SmallestNonzeroFloat32
}
