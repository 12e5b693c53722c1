package quant

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

func float8Of(dt backend.DType) *minifloat {
	switch code := dt.Coding().Code; code {
	case backend.E4M3:
		return e4m3
	case backend.E5M2:
		return e5m2
	default:
		panic(fmt.Sprintf("quant: %s has codes that are %s, and no 8-bit floats", dt, code))
	}
}

// MaxFP8 is the largest finite value of a type of 8-bit floats.
func MaxFP8(dt backend.DType) float32 { return float8Of(dt).max }

// FP8 is the nearest 8-bit float of a type, ties to even. Values beyond the largest finite one,
// infinities included, become that; NaN becomes 0x7f.
func FP8(dt backend.DType, f float32) uint8 {
	return float8Of(dt).code(f)
}

// FromFP8 is the value of a code of a type of 8-bit floats.
func FromFP8(dt backend.DType, code uint8) float32 { return float8Of(dt).values[code] }

// EncodeFP8 stores the row x as 8-bit floats of x/scale, saturated. It is false when a value is not
// finite; with saturate an infinity becomes the largest value, and NaN becomes 0.
func EncodeFP8(dt backend.DType, codes []byte, x []float32, scale float32, saturate bool) bool {
	t := float8Of(dt)
	codes = codes[:len(x)]
	for i, v := range x {
		if !(abs(v) <= math.MaxFloat32) {
			if !saturate {
				return false
			}
			if v != v {
				v = 0
			}
		}
		if q := v / scale; q == q {
			codes[i] = t.code(q)
		} else { // 0/0
			codes[i] = 0x7f
		}
	}
	return true
}

// DecodeFP8 computes the values of a row.
func DecodeFP8(dt backend.DType, dst []float32, codes []byte, scale float32) {
	values := &float8Of(dt).values
	codes = codes[:len(dst)]
	for i, c := range codes {
		dst[i] = scale * values[c]
	}
}

// BoundFP8 is the largest difference between a finite x and its stored value: half a unit in the
// last place within the range, and the distance to the largest value beyond it.
func BoundFP8(dt backend.DType, x, scale float32) float64 {
	t := float8Of(dt)
	a, s := math.Abs(float64(x)), float64(scale)
	if a > s*float64(t.max) {
		return a - s*float64(t.max) + a*0x1p-22
	}
	smallest := math.Ldexp(s, 1-t.bias-t.fraction) // distance of subnormals
	return max(math.Ldexp(a, -t.fraction-1), smallest/2)*(1+0x1p-18) + math.SmallestNonzeroFloat32
}
