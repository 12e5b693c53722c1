package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var fp8s = []backend.DType{backend.FP8E4M3, backend.FP8E5M2}

// The values of OFP8's own tables.
func TestFP8KnownValues(t *testing.T) {
	for code, want := range map[uint8]float32{0: 0, 1: 0x1p-9, 7: 7 * 0x1p-9, 8: 0x1p-6, 0x38: 1, 0x7e: 448, 0xfe: -448} {
		require.Equal(t, want, FromFP8(backend.FP8E4M3, code), "e4m3 %#x", code)
	}
	for code, want := range map[uint8]float32{0: 0, 1: 0x1p-16, 3: 3 * 0x1p-16, 4: 0x1p-14, 0x3c: 1, 0x7b: 57344, 0xfb: -57344} {
		require.Equal(t, want, FromFP8(backend.FP8E5M2, code), "e5m2 %#x", code)
	}
	require.Equal(t, float32(448), MaxFP8(backend.FP8E4M3))
	require.Equal(t, float32(57344), MaxFP8(backend.FP8E5M2))
	require.True(t, math.IsInf(float64(FromFP8(backend.FP8E5M2, 0xfc)), -1))
}

// Every finite code is what its value is stored as; NaN is one code, and no value is
// stored as an infinity.
func TestFP8RoundTripsEveryCode(t *testing.T) {
	for _, dt := range fp8s {
		for i := range 256 {
			code := uint8(i)
			v := FromFP8(dt, code)
			switch {
			case v != v:
				require.Equal(t, uint8(0x7f), FP8(dt, v))
			case abs(v) > MaxFP8(dt):
				require.Equal(t, code-1, FP8(dt, v), "%s: infinity is saturated", dt)
			default:
				require.Equal(t, code, FP8(dt, v), "%s %#x", dt, code)
			}
			if v == v {
				require.Equal(t, -v, FromFP8(dt, code^0x80))
			}
		}
	}
}

// nearestFP8 looks at every code: the nearest value, of two the even code.
func nearestFP8(dt backend.DType, x float64) uint8 {
	best, distance := uint8(0), math.Inf(1)
	magnitude := min(math.Abs(x), 2*float64(MaxFP8(dt))) // so that differences are exact
	for i := range 128 {
		v := float64(FromFP8(dt, uint8(i)))
		if v != v || v > float64(MaxFP8(dt)) {
			continue
		}
		if d := math.Abs(magnitude - v); d < distance || d == distance && i%2 == 0 {
			best, distance = uint8(i), d
		}
	}
	if math.Signbit(x) {
		best |= 0x80
	}
	return best
}

// A value is stored as the nearest one, at every tie, beside it, and elsewhere.
func TestFP8IsTheNearest(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, dt := range fp8s {
		check := func(x float32) {
			for _, v := range []float32{x, -x} {
				if want, got := nearestFP8(dt, float64(v)), FP8(dt, v); got != want {
					t.Fatalf("%s of %g: %#x, the nearest is %#x", dt, v, got, want)
				}
			}
		}
		for i := range 127 {
			lo, hi := FromFP8(dt, uint8(i)), FromFP8(dt, uint8(i+1))
			if hi != hi || hi > MaxFP8(dt) {
				continue
			}
			tie := (lo + hi) / 2
			check(tie)
			check(math.Nextafter32(tie, 0))
			check(math.Nextafter32(tie, hi))
		}
		for range 20000 {
			check(anyFloat(r))
			check(float32(r.NormFloat64() * math.Ldexp(1, r.IntN(30)-20)))
		}
		for _, v := range []float32{math.MaxFloat32, math.SmallestNonzeroFloat32, MaxFP8(dt), math.Nextafter32(MaxFP8(dt), 1e9)} {
			check(v)
		}
		require.Equal(t, FP8(dt, MaxFP8(dt)), FP8(dt, float32(math.Inf(1))))
		require.Equal(t, FP8(dt, -MaxFP8(dt)), FP8(dt, float32(math.Inf(-1))))
	}
}

// Whatever a row and its head's scale look like, its values are read within their bounds.
func TestFP8StaysWithinItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		scale := float32(math.Ldexp(1+rapid.Float64Range(0, 1).Draw(t, "fraction"), rapid.IntRange(-120, 110).Draw(t, "exponent")))
		for _, dt := range fp8s {
			codes, back := make([]byte, len(x)), make([]float32, len(x))
			require.True(t, EncodeFP8(dt, codes, x, scale, false))
			DecodeFP8(dt, back, codes, scale)
			for i, v := range x {
				near(t, v, back[i], BoundFP8(dt, v, scale), "%s with scale %g", dt, scale)
			}
		}
	})
}

func TestFP8RefusesWhatIsNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, dt := range fp8s {
		for _, bad := range []float32{inf, -inf, nan} {
			require.False(t, EncodeFP8(dt, make([]byte, 3), []float32{1, 2, bad}, 1, false))
		}
		codes, back := make([]byte, 4), make([]float32, 4)
		require.True(t, EncodeFP8(dt, codes, []float32{inf, -inf, nan, 3}, 0.5, true))
		DecodeFP8(dt, back, codes, 0.5)
		require.Equal(t, []float32{MaxFP8(dt) / 2, -MaxFP8(dt) / 2, 0, 3}, back)
	}
}
