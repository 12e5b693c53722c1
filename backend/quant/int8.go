package quant

import "math"

// Int8 stores a row as signed codes that share one scale: value = scale*code, code
// from -127 to 127.

// EncodeInt8 stores the row x as len(x) codes and returns its scale. It is false when a value is
// not finite; with saturate it replaces such values in x first (see Saturate).
func EncodeInt8(codes []byte, x []float32, saturate bool) (scale float32, ok bool) {
	lo, hi, ok := finiteSpan(x, saturate)
	if !ok {
		return 0, false
	}
	scale = ScaleInt8(max(abs(lo), abs(hi)))
	codes = codes[:len(x)]
	if scale == 0 {
		clear(codes)
		return 0, true
	}
	for i, v := range x {
		codes[i] = byte(integer(min(max(v/scale, -127), 127)))
	}
	return scale, true
}

// ScaleInt8 is the scale of a row with the given largest magnitude, which it covers up to 0x1.ep127.
func ScaleInt8(largest float32) float32 {
	scale := min(largest, farthest) / 127
	if scale == 0 && largest > 0 {
		scale = math.SmallestNonzeroFloat32
	}
	return scale
}

// DecodeInt8 computes the values of a row.
func DecodeInt8(dst []float32, codes []byte, scale float32) {
	codes = codes[:len(dst)]
	for i, c := range codes {
		dst[i] = scale * float32(int8(c))
	}
}

// BoundInt8 is the largest difference between a value of a row and its stored value: half a step,
// which is 1/127 of the largest magnitude, and what that has beyond 0x1.ep127.
func BoundInt8(x []float32) float64 {
	largest := largestOf(x)
	return halfStep(ScaleInt8(largest)) + beyond(largest)
}
