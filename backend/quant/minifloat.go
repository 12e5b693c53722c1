package quant

import "math"

// minifloat is one of the small floats of the Open Compute Project: the two of OFP8, and E2M1 of MX.
type minifloat struct {
	bits     int          // of a code
	sign     uint8        // the highest of them
	fraction int          // bits of it
	bias     int          // of the exponent
	max      float32      // largest finite value
	values   [256]float32 // of all codes
}

var e4m3, e5m2, e2m1 = newMinifloat(8, 3, 7, 448), newMinifloat(8, 2, 15, 57344), newMinifloat(4, 1, 1, 6)

func newMinifloat(bits, fraction, bias int, max float32) *minifloat {
	t := &minifloat{bits: bits, sign: 1 << (bits - 1), fraction: fraction, bias: bias, max: max}
	for code := range int(t.sign) {
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
		t.values[code], t.values[code|int(t.sign)] = float32(v), float32(-v)
	}
	return t
}

// code is the code nearest to f, and of NaN, in a float that has one, all bits but the sign.
func (t *minifloat) code(f float32) uint8 {
	if f != f {
		return t.sign - 1
	}
	sign := uint8(int32(math.Float32bits(f))>>31) & t.sign
	a := abs(f)
	switch {
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
