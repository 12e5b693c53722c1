package quant

import "math"

// Rows of 4-bit floats whose groups share a power of two, as the OCP Microscaling Formats (MX) v1.0
// have them: value = 2^(e-127) * code, where a code is one of 0, 0.5, 1, 1.5, 2, 3, 4, 6, or one of
// those with the sign in its highest bit, and e is a byte, four of which lie in a word from the
// lowest on. Bytes after a row's last group are 0. Every product is exact in a float32.

// NaNExponent is the exponent of a group whose values are all NaN.
const NaNExponent = 255

// Exponent is the byte of group i of a row: an exponent, or what else is stored in its place (see
// EncodeNV).
func Exponent(words []uint32, i int) uint8 { return uint8(words[i/4] >> (i % 4 * 8)) }

// PutExponent sets the byte of group i. Groups are set in order: the first one of a word clears
// the others.
func PutExponent(words []uint32, i int, e uint8) {
	if i%4 == 0 {
		words[i/4] = 0
	}
	words[i/4] |= uint32(e) << (i % 4 * 8)
}

// ScaleMX is the factor that an exponent stands for; NaN for NaNExponent.
func ScaleMX(e uint8) float32 {
	bits := uint32(e) << 23
	if e == 0 || e == NaNExponent { // the subnormal 2^-127, and what would be an infinity
		bits |= 1 << 22
	}
	return math.Float32frombits(bits)
}

// ExponentMX is the exponent of a group with the given largest magnitude, which is finite: the one
// that scales it to at least 4 and below 8, or 0 when it is too small for that.
func ExponentMX(largest float32) uint8 {
	return uint8(max(int(math.Float32bits(largest)>>23)-2, 0))
}

// largestOf is the largest magnitude of a group of finite values.
func largestOf(group []float32) float32 {
	lo, hi, _ := span(group)
	return max(abs(lo), abs(hi))
}

// EncodeMX stores the row x in groups of the given size, a multiple of 8; the last one may be
// shorter. Codes are rounded to nearest, ties to even; the largest is 6. It is false when a value
// is not finite, and codes and words are then undefined; with saturate it replaces such values in x
// first (see Saturate).
func EncodeMX(codes []byte, words []uint32, x []float32, group int, saturate bool) bool {
	p := packer{to: codes, bits: e2m1.bits}
	for i := 0; len(x) > 0; i++ {
		n := min(group, len(x))
		lo, hi, ok := finiteSpan(x[:n], saturate)
		if !ok {
			return false
		}
		e := ExponentMX(max(abs(lo), abs(hi)))
		PutExponent(words, i, e)
		by := ScaleMX(254 - e) // exact, but where the code is 0 anyway
		for _, v := range x[:n] {
			p.put(uint32(e2m1.code(v * by)))
		}
		x = x[n:]
	}
	p.flush()
	return true
}

// DecodeMX computes the values of a row.
func DecodeMX(dst []float32, codes []byte, words []uint32, group int) {
	for i := 0; len(dst) > 0; i++ {
		n := min(group, len(dst))
		decodeE2M1(dst[:n], codes, ScaleMX(Exponent(words, i)))
		dst, codes = dst[n:], codes[PackedLen(n, e2m1.bits):]
	}
}

// decodeE2M1 computes the values of a group by its step.
func decodeE2M1(dst []float32, codes []byte, step float32) {
	values, n := &e2m1.values, len(dst)
	for k, c := range codes[:n/2] {
		dst[2*k], dst[2*k+1] = step*values[c&15], step*values[c>>4]
	}
	if n%2 == 1 {
		dst[n-1] = step * values[codes[n/2]&15]
	}
}

// BoundMX is the largest difference between a value and its stored value in a group with the given
// exponent: half the distance between neighbouring codes, or the distance to the largest one.
func BoundMX(x float32, e uint8) float64 {
	return boundE2M1(math.Abs(float64(x)), math.Ldexp(1, int(e)-127))
}

// boundE2M1 is the largest difference between a magnitude and its nearest code, times a step.
func boundE2M1(a, step float64) float64 {
	switch {
	case a <= 2*step:
		return step / 4
	case a <= 4*step:
		return step / 2
	case a <= 6*step:
		return step
	}
	return a - 6*step
}
