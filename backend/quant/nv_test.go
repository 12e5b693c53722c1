package quant

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

// nvGroup is that of the type that is stored so.
var nvGroup = backend.NVFP4.Coding().Group

// exactE4M3 is what an 8-bit float is worth, by the definition of OFP8.
func exactE4M3(b uint8) float64 {
	e, part := int(b>>3&15), float64(b&7)/8
	v := math.Ldexp(1+part, e-7)
	switch {
	case b&0x7f == 0x7f:
		return math.NaN()
	case e == 0:
		v = math.Ldexp(part, -6)
	}
	return math.Copysign(v, float64(int8(b|1)))
}

// Every code with every byte reads as what it is worth: the step is rounded to a float32 once, and a value
// once more, in either half of a byte and from any byte of a word.
func TestNVDecodesExactly(t *testing.T) {
	for _, factor := range []float32{1, 0.75, 1.0 / 3, 0x1.fffffep-10, 0x1p-140, 3e38} {
		for b := range 256 {
			for code := range 256 {
				group := (b + code) % 4
				row, codes, words := make([]float32, 4*nvGroup), make([]byte, 2*nvGroup), []uint32{uint32(b) << (8 * group)}
				codes[group*nvGroup/2] = byte(code)
				DecodeNV(row, codes, words, nvGroup, factor)
				for half, c := range []uint8{uint8(code) & 15, uint8(code) >> 4} {
					step := float32(exactE4M3(uint8(b)) * float64(factor))
					want := float32(float64(step) * math.Copysign(magnitudes[c&7], float64(int8(c<<4|1))))
					if got := row[group*nvGroup+half]; math.Float32bits(got) != math.Float32bits(want) && (want == want || got == got) {
						t.Fatalf("code %d, byte %#x, factor %g: %g, want %g", c, b, factor, got, want)
					}
				}
			}
		}
	}
}

// nearestE4M3 looks at every finite magnitude: the nearest one, of two the even code.
func nearestE4M3(x float64) uint8 {
	x = min(x, 500) // beyond that differences are rounded
	best := uint8(0)
	for b := range uint8(0x7f) {
		d, least := math.Abs(x-exactE4M3(b)), math.Abs(x-exactE4M3(best))
		if d < least || d == least && b%2 == 0 {
			best = b
		}
	}
	return best
}

// nearestE2M1 is that of magnitudes, with a sign.
func nearestE2M1(x float64) uint8 {
	x = min(max(x, -8), 8)
	best := uint8(0)
	for code := range uint8(8) {
		d, least := math.Abs(math.Abs(x)-magnitudes[code]), math.Abs(math.Abs(x)-magnitudes[best])
		if d < least || d == least && code%2 == 0 {
			best = code
		}
	}
	if math.Signbit(x) {
		best |= 8
	}
	return best
}

// anyFactor is what a model's scale may be, and what none is.
func anyFactor(t *rapid.T) float32 {
	return float32(math.Ldexp(rapid.Float64Range(1, 1.999).Draw(t, "fraction"), rapid.IntRange(-130, 127).Draw(t, "exponent of the factor")))
}

// A group's byte is the E4M3 nearest to a sixth of its largest magnitude over the factor, and its codes
// are the nearest to its values over the step, both found by looking at all there are.
func TestNVEncodesTheNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		factor := float32(1)
		if rapid.Bool().Draw(t, "any factor") {
			factor = anyFactor(t)
		}
		e := roomFor(t, backend.NVFP4, len(x))
		for i := range e.scales {
			e.scales[i] = 0xdeadbeef // of an earlier row
		}
		require.True(t, EncodeNV(e.codes, e.scales, slices.Clone(x), nvGroup, factor, false))
		for i := range 4 * len(e.scales) {
			if i*nvGroup >= len(x) {
				require.Zero(t, Exponent(e.scales, i), "byte %d is no group's", i)
				continue
			}
			group := x[i*nvGroup : min((i+1)*nvGroup, len(x))]
			top := 0.0
			for _, v := range group {
				top = max(top, math.Abs(float64(v)))
			}
			b := Exponent(e.scales, i)
			require.Equal(t, nearestE4M3(float64(float32(float64(float32(min(top, farthest)/6))/float64(factor)))), b, "group %d of largest magnitude %g", i, top)
			step := float64(float32(exactE4M3(b) * float64(factor)))
			for k, v := range group {
				want := uint8(0)
				if math.Signbit(float64(v)) {
					want = 8
				}
				if step > 0 {
					want = nearestE2M1(float64(float32(float64(v) / step)))
				}
				at := i*nvGroup + k
				if got := e.codes[at/2] >> (at % 2 * 4) & 15; got != want {
					t.Fatalf("element %d is %g: code %d, want %d with a step of %g", at, v, got, want, step)
				}
			}
		}
		if len(x)%2 == 1 {
			require.Zero(t, e.codes[len(x)/2]>>4, "behind the last code")
		}
	})
}

// Rows are read within their bounds with any factor, also with one so small that values are saturated or
// so large that groups are lost.
func TestNVStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, factor := drawRow(t), anyFactor(t)
		e, back := roomFor(t, backend.NVFP4, len(x)), make([]float32, len(x))
		require.True(t, EncodeNV(e.codes, e.scales, slices.Clone(x), nvGroup, factor, false))
		DecodeNV(back, e.codes, e.scales, nvGroup, factor)
		for i, v := range x {
			near(t, v, back[i], BoundNV(v, StepNV(Exponent(e.scales, i/nvGroup), factor)), "value %d, factor %g", i, factor)
		}
	})
}

// Rows worked out by hand.
func TestNVKnownRows(t *testing.T) {
	for _, c := range []struct {
		x      []float32
		factor float32
		codes  []byte
		words  []uint32
	}{
		{[]float32{0.5, 1, 1.5, 2, 3, 4, 6, -6}, 1, []byte{0x21, 0x43, 0x65, 0xf7}, []uint32{0x38}},
		{[]float32{0.5, 1, 1.5, 2, 3, 4, 6, -6}, 0.5, []byte{0x21, 0x43, 0x65, 0xf7}, []uint32{0x40}},
		{[]float32{6 * 448, 1e9, -1, 0}, 1, []byte{0x77, 0x08}, []uint32{0x7e}},   // saturated
		{[]float32{6 * 0x1p-11, -1e-9, 0, 0}, 1, []byte{0x80, 0x00}, []uint32{0}}, // lost
		{[]float32{0, 0, 0, 0}, 1, []byte{0, 0}, []uint32{0}},
		{append(make([]float32, 16), 12), 1, append(make([]byte, 8), 7), []uint32{0x4000}},
	} {
		e := roomFor(t, backend.NVFP4, len(c.x))
		require.True(t, EncodeNV(e.codes, e.scales, slices.Clone(c.x), nvGroup, c.factor, false))
		require.Equal(t, encoded{c.codes, c.words}, e, "%v with %g", c.x, c.factor)
	}
}

// What is not finite is refused, or made finite within its group.
func TestNVRefusesWhatIsNotFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		x := noise(r, 40, 1, 0)
		x[17] = float32(bad)
		e, want := roomFor(t, backend.NVFP4, 40), roomFor(t, backend.NVFP4, 40)
		require.False(t, EncodeNV(e.codes, e.scales, slices.Clone(x), nvGroup, 0.5, false))
		require.True(t, EncodeNV(e.codes, e.scales, slices.Clone(x), nvGroup, 0.5, true))
		Saturate(x[16:32])
		require.True(t, EncodeNV(want.codes, want.scales, x, nvGroup, 0.5, false))
		require.Equal(t, want, e)
	}
	back := make([]float32, 32)
	DecodeNV(back, make([]byte, 16), []uint32{NaNFactor << 8}, nvGroup, 0.5)
	require.Zero(t, back[15])
	for _, v := range back[16:] {
		require.True(t, v != v)
	}
}

// FuzzNV reads any bytes, words and factors: each value is a step times a code.
func FuzzNV(f *testing.F) {
	f.Add([]byte{0x21, 0x43, 0x65, 0xf7}, uint64(0x7f7e0138_40ff8000), float32(0.5))
	f.Add([]byte{0xff}, uint64(math.MaxUint64), float32(math.Inf(1)))
	f.Fuzz(func(t *testing.T, data []byte, words uint64, factor float32) {
		data = data[:min(len(data), 4*nvGroup)]
		row := make([]float32, 2*len(data))
		scales := []uint32{uint32(words), uint32(words >> 32)}
		DecodeNV(row, data, scales, nvGroup, factor)
		for i, got := range row {
			code := data[i/2] >> (i % 2 * 4) & 15
			step := float32(exactE4M3(Exponent(scales, i/nvGroup)) * float64(factor))
			want := step * float32(math.Copysign(magnitudes[code&7], float64(int8(code<<4|1))))
			if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
				t.Fatalf("element %d of code %d: %g, want %g", i, code, got, want)
			}
		}
	})
}
