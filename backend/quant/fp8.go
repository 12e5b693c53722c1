package quant

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// float8 is one of the two 8-bit floats of the Open Compute Project's OFP8.
type float8 struct {
	fraction int          // bits of it
	bias     int          // of the exponent
	max      float32      // largest finite value
	values   [256]float32 // of all codes
}

var e4m3, e5m2 = newFloat8(3, 7, 448), newFloat8(2, 15, 57344)

func float8Of(dt backend.DType) *float8 {
	switch code := dt.Coding().Code; code {
	case backend.E4M3:
		return e4m3
	case backend.E5M2:
		return e5m2
	default:
		panic(fmt.Sprintf("quant: %s has codes that are %s, and no 8-bit floats", dt, code))
	}
}

func newFloat8(fraction, bias int, max float32) *float8 {
	t := &float8{fraction: fraction, bias: bias, max: max}
	for code := range 128 {
		exponent, part := code>>fraction, float64(code&(1<<fraction-1))
		v := math.Ldexp(part, 1-bias-fraction)
		if exponent > 0 {
			v = math.Ldexp(part+math.Ldexp(1, fraction), exponent-bias-fraction)
		}
		switch {
		case fraction == 2 && code == 0x7c:
			v = math.Inf(1)
		case v > float64(max):
			v = math.NaN()
		}
		t.values[code], t.values[code|0x80] = float32(v), float32(-v)
	}
	return t
}

// MaxFP8 is the largest finite value of a type of 8-bit floats.
func MaxFP8(dt backend.DType) float32 { return float8Of(dt).max }

// FP8 is the 8-bit float of a type nearest to f, ties to even; what is beyond the largest
// finite value, infinities too, becomes that. NaN is 0x7f.
func FP8(dt backend.DType, f float32) uint8 {
	t := float8Of(dt)
	sign := uint8(math.Float32bits(f)>>24) & 0x80
	a := abs(f)
	switch {
	case f != f:
		return 0x7f
	case a >= t.max:
		a = t.max
	case a < power(1-t.bias): // subnormal: counts the smallest one
		return sign | uint8(integer(a*power(t.bias-1+t.fraction)))
	}
	drop := 23 - t.fraction
	bits := math.Float32bits(a)
	bits += 1<<(drop-1) - 1 + bits>>drop&1
	return sign | uint8(bits>>drop-uint32(127-t.bias)<<t.fraction)
}

// power is 2^e, of a normal float32.
func power(e int) float32 { return math.Float32frombits(uint32(127+e) << 23) }

// FromFP8 is the value of a code of a type of 8-bit floats.
func FromFP8(dt backend.DType, code uint8) float32 { return float8Of(dt).values[code] }

// EncodeFP8 stores the row x as 8-bit floats of x/scale, saturated. It is false
// where a value is not finite; with saturate infinities are saturated, too, and NaN is 0.
func EncodeFP8(dt backend.DType, codes []byte, x []float32, scale float32, saturate bool) bool {
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
		codes[i] = FP8(dt, v/scale)
	}
	return true
}

// DecodeFP8 is the values of a row.
func DecodeFP8(dt backend.DType, dst []float32, codes []byte, scale float32) {
	values := &float8Of(dt).values
	codes = codes[:len(dst)]
	for i, c := range codes {
		dst[i] = scale * values[c]
	}
}

// BoundFP8 is the largest distance between a finite x and what it is stored as: half a
// unit of its last place where it is in range, else the distance to the largest value.
func BoundFP8(dt backend.DType, x, scale float32) float64 {
	t := float8Of(dt)
	a, s := math.Abs(float64(x)), float64(scale)
	if a > s*float64(t.max) {
		return a - s*float64(t.max) + a*0x1p-22
	}
	smallest := math.Ldexp(s, 1-t.bias-t.fraction) // distance of subnormals
	return max(math.Ldexp(a, -t.fraction-1), smallest/2)*(1+0x1p-18) + math.SmallestNonzeroFloat32
}
