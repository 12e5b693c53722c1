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

// mxGroup is that of the type that is stored so.
var mxGroup = backend.MXFP4.Coding().Group

// magnitudes are those of the codes of OCP's E2M1.
var magnitudes = [8]float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}

// exactMX is what a code is worth with an exponent.
func exactMX(code, e uint8) float64 {
	if e == NaNExponent {
		return math.NaN()
	}
	v := math.Ldexp(magnitudes[code&7], int(e)-127)
	if code&8 != 0 {
		return -v
	}
	return v
}

// Every code with every exponent reads as what it is worth, rounded to a float32 only where it is beyond
// the largest one, in either half of a byte and
// from any byte of a word.
func TestMXDecodesExactly(t *testing.T) {
	for e := range 256 {
		for code := range 256 {
			for group := range 4 {
				row, codes, words := make([]float32, 4*mxGroup), make([]byte, 2*mxGroup), []uint32{uint32(e) << (8 * group)}
				codes[group*mxGroup/2] = byte(code)
				DecodeMX(row, codes, words, mxGroup)
				for half, c := range []uint8{uint8(code) & 15, uint8(code) >> 4} {
					got, want := row[group*mxGroup+half], float32(exactMX(c, uint8(e)))
					if math.Float32bits(got) != math.Float32bits(want) && (want == want || got == got) {
						t.Fatalf("code %d, exponent %d, group %d: %g, want %g", c, e, group, got, want)
					}
				}
			}
		}
	}
}

// nearestMX looks at every magnitude: the nearest one, of two the even code, with the sign of x.
func nearestMX(x float64, e uint8) uint8 {
	best := uint8(0)
	for code := range uint8(8) {
		d, least := math.Abs(math.Abs(x)-exactMX(code, e)), math.Abs(math.Abs(x)-exactMX(best, e))
		if d < least || d == least && code%2 == 0 {
			best = code
		}
	}
	if math.Signbit(x) {
		best |= 8
	}
	return best
}

// What is stored is what the specification's section 6.3 says, worked out in float64: the exponent is
// that of the largest magnitude's binade, less that of the largest code's, and codes are the nearest.
func TestMXEncodesTheNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		if rapid.Bool().Draw(t, "ties") { // of every two codes, beside them too
			e := rapid.IntRange(0, 252).Draw(t, "exponent")
			for i := range x {
				code := rapid.IntRange(0, 6).Draw(t, "code")
				tie := float32(math.Ldexp((magnitudes[code]+magnitudes[code+1])/2, e-127))
				x[i] = []float32{tie, -tie, math.Nextafter32(tie, 0), math.Nextafter32(-tie, -largest)}[rapid.IntRange(0, 3).Draw(t, "beside")]
			}
		}
		e := roomFor(t, backend.MXFP4, len(x))
		for i := range e.scales {
			e.scales[i] = 0xdeadbeef // of an earlier row
		}
		require.True(t, EncodeMX(e.codes, e.scales, slices.Clone(x), mxGroup, false))
		groups := (len(x) + mxGroup - 1) / mxGroup
		for i := range 4 * len(e.scales) {
			exponent := 0
			if i < groups {
				top := 0.0
				for _, v := range x[i*mxGroup : min((i+1)*mxGroup, len(x))] {
					top = max(top, math.Abs(float64(v)))
				}
				if top > 0 {
					exponent = max(math.Ilogb(top)-2+127, 0)
				}
			}
			require.EqualValues(t, exponent, Exponent(e.scales, i), "group %d of %d", i, groups)
		}
		for i, v := range x {
			want, got := nearestMX(float64(v), Exponent(e.scales, i/mxGroup)), e.codes[i/2]>>(i%2*4)&15
			if want != got {
				t.Fatalf("element %d is %g: code %d, want %d with exponent %d", i, v, got, want, Exponent(e.scales, i/mxGroup))
			}
		}
		if len(x)%2 == 1 {
			require.Zero(t, e.codes[len(x)/2]>>4, "behind the last code")
		}
	})
}

// Rows worked out by hand.
func TestMXKnownRows(t *testing.T) {
	for _, c := range []struct {
		x     []float32
		codes []byte
		words []uint32
	}{
		{[]float32{0.5, 1, 1.5, 2, 3, 4, 6, -6}, []byte{0x21, 0x43, 0x65, 0xf7}, []uint32{127}},
		{[]float32{7.9, 5, 0.25, -0.75}, []byte{0x67, 0xa0}, []uint32{127}},      // beyond the largest, and three ties
		{[]float32{0, float32(math.Copysign(0, -1))}, []byte{0x80}, []uint32{0}}, // a sign is kept
		{[]float32{-0.01, 4}, []byte{0x68}, []uint32{127}},                       // also of what becomes 0
		{[]float32{0x1p-149, -0x1p-127}, []byte{0xa0}, []uint32{0}},
		{[]float32{math.MaxFloat32}, []byte{7}, []uint32{252}},
	} {
		e := roomFor(t, backend.MXFP4, len(c.x))
		require.True(t, EncodeMX(e.codes, e.scales, slices.Clone(c.x), mxGroup, false))
		require.Equal(t, c.codes, e.codes, "%v", c.x)
		require.Equal(t, c.words, e.scales, "%v", c.x)
	}
}

// Four groups share a word, the first one's exponent lowest; a fifth begins another word.
func TestMXWords(t *testing.T) {
	x := make([]float32, 4*mxGroup+1)
	for i := range x {
		x[i] = float32(math.Ldexp(1, i/mxGroup))
	}
	e := roomFor(t, backend.MXFP4, len(x))
	require.True(t, EncodeMX(e.codes, e.scales, x, mxGroup, false))
	require.Equal(t, []uint32{0x807f7e7d, 0x81}, e.scales)
}

// Values that are not finite are refused, or become finite ones of their group; others are not touched.
func TestMXNotFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, bad := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())} {
		x := noise(r, 3*mxGroup, 1, 0)
		at := mxGroup + r.IntN(mxGroup)
		x[at] = 0
		finite := roomFor(t, backend.MXFP4, len(x))
		require.True(t, EncodeMX(finite.codes, finite.scales, slices.Clone(x), mxGroup, false))
		largest := slices.MaxFunc(x[mxGroup:2*mxGroup], func(a, b float32) int { return int(math.Copysign(1, float64(abs(a)-abs(b)))) })
		x[at] = bad
		e, back := roomFor(t, backend.MXFP4, len(x)), make([]float32, len(x))
		require.False(t, EncodeMX(e.codes, e.scales, slices.Clone(x), mxGroup, false))
		require.True(t, EncodeMX(e.codes, e.scales, x, mxGroup, true))
		require.Equal(t, finite.scales, e.scales)
		DecodeMX(back, e.codes, e.scales, mxGroup)
		want := float32(0)
		if bad == bad {
			want = float32(math.Copysign(float64(abs(largest)), float64(bad)))
		}
		require.Equal(t, want, x[at])
		near(t, want, back[at], BoundMX(want, Exponent(e.scales, 1)), "%v", bad)
	}
}

// The bound is one: no value is further away, and at every tie and at the end of the range it is reached.
func TestMXBoundIsTight(t *testing.T) {
	for _, e := range []uint8{0, 1, 100, 127, 252} {
		for _, c := range []struct{ x, bound float64 }{{0, 0.25}, {0.25, 0.25}, {1.75, 0.25}, {2, 0.25}, {2.5, 0.5}, {4, 0.5}, {4.5, 1}, {5, 1}, {6, 1}, {7, 1}, {7.5, 1.5}} {
			require.Equal(t, math.Ldexp(c.bound, int(e)-127), BoundMX(float32(math.Ldexp(c.x, int(e)-127)), e), "%g", c.x)
		}
	}
}

// FuzzMX reads any bytes as a row: each value is what float64 makes of it, and a row of
// them is stored as it was, but for the exponent of groups that could have a smaller one.
func FuzzMX(f *testing.F) {
	f.Add([]byte{127, 0, 0, 0, 0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}, byte(15))
	f.Add([]byte{0, 255, 1, 254, 0xff}, byte(80))
	f.Fuzz(func(t *testing.T, data []byte, dim byte) {
		if dim == 0 || len(data) == 0 {
			return
		}
		e, row := roomFor(t, backend.MXFP4, int(dim)), make([]float32, dim)
		for i := range e.scales {
			for k := range 4 {
				e.scales[i] |= uint32(data[(4*i+k)%len(data)]) << (8 * k)
			}
		}
		for i := range e.codes {
			e.codes[i] = data[(4*len(e.scales)+i)%len(data)]
		}
		DecodeMX(row, e.codes, e.scales, mxGroup)
		finite := true
		for i, got := range row {
			want := float32(exactMX(e.codes[i/2]>>(i%2*4)&15, Exponent(e.scales, i/mxGroup)))
			if got != want && (got == got || want == want) {
				t.Fatalf("value %d is %g, want %g", i, got, want)
			}
			finite = finite && abs(got) <= math.MaxFloat32
		}
		again, back := roomFor(t, backend.MXFP4, int(dim)), make([]float32, dim)
		if EncodeMX(again.codes, again.scales, slices.Clone(row), mxGroup, false) != finite {
			t.Fatalf("stored although not finite, or not although it is: %v", row)
		}
		if !finite {
			return
		}
		DecodeMX(back, again.codes, again.scales, mxGroup)
		if !slices.Equal(row, back) {
			t.Fatalf("%v became %v", row, back)
		}
	})
}
