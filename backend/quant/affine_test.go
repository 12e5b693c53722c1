package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// affines are widths of codes and groups that somebody stores.
var affines = []Affine{{2, 32}, {3, 32}, {4, 32}, {4, 64}, {8, 0}, {2, 0}, {3, 8}, {4, 0}, {8, 32}}

func (a Affine) String() string { return fmt.Sprintf("%d bits, groups of %d", a.Bits, a.Group) }

// stored is the row as it is read back.
func (a Affine) stored(t require.TestingT, x []float32) []float32 {
	codes, words := make([]byte, a.Bytes(len(x))), make([]uint32, a.Words(len(x)))
	require.True(t, a.Encode(codes, words, slices.Clone(x), false))
	back := make([]float32, len(x))
	a.Decode(back, codes, words)
	return back
}

// within fails where a value of x is further than its group's bound from what was read.
func (a Affine) within(t require.TestingT, x, back []float32) {
	for i := 0; i < len(x); {
		group := x[i:][:a.group(len(x)-i)]
		bound := a.Bound(group)
		for k, v := range group {
			near(t, v, back[i+k], bound, "%s: value %d", a, i+k)
		}
		i += len(group)
	}
}

// Whatever a row looks like, its values are read within the bound.
func TestAffineStaysWithinItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		for _, a := range affines {
			a.within(t, x, a.stored(t, x))
		}
	})
}

// The bound itself is worth something: half a step of the range over the codes, a bit
// more by the scale's rounding, or what a far offset costs.
func TestAffineBoundIsTight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		lo, hi := float64(slices.Min(x)), float64(slices.Max(x))
		for _, a := range affines {
			top, part := float64(int(1)<<a.Bits-1), math.Ldexp(1, 8-a.Bits)/32767
			step := max((hi-lo)/top, math.Abs(lo)*part)
			require.LessOrEqual(t, a.Bound(x), step*0.5*(1+1.0/64+1.0/64)+0x1p-132+max(0, hi-farthest, -lo-farthest), "%s", a)
		}
	})
}

// A constant group, however far from zero, keeps its value: its step is a small part of
// it, 1/512 at 2 bits and less at more.
func TestAffineKeepsConstants(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		c := anyFloat(r)
		x := slices.Repeat([]float32{c}, 40)
		for _, a := range affines {
			for _, v := range a.stored(t, x) {
				near(t, c, v, math.Abs(float64(c))/250*math.Ldexp(1, 2-a.Bits)+0x1p-133+beyond(abs(c)), "%s", a)
			}
		}
	}
	for _, c := range []float32{0.5, -0.3, 100, 7, 1e-8, -1e30} { // of the reports about the seed
		for _, v := range (Affine{4, 32}).stored(t, slices.Repeat([]float32{c}, 32)) {
			require.InEpsilon(t, c, v, 1e-3)
		}
	}
}

// What a code is worth is exact in a float32: it is the same in float64.
func TestAffineDecodesExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 20000 {
		word := r.Uint32()
		if word&0x7f80 == 0x7f80 {
			continue // an infinity or NaN
		}
		for _, bits := range []int{2, 3, 4, 8} {
			code := uint8(r.IntN(1 << bits))
			exact := float64(FromBF16(uint16(word))) * (float64(code) + float64(int16(word>>16))*math.Ldexp(1, bits-8))
			if math.Abs(exact) > math.MaxFloat32 {
				continue
			}
			require.Equal(t, exact, float64(Word(word).Value(code, bits)), "word %#x, code %d of %d bits", word, code, bits)
			var one [1]float32
			packed := []byte{code}
			Affine{Bits: bits}.Decode(one[:], packed, []uint32{word})
			require.Equal(t, exact, float64(one[0]))
		}
	}
	var one [1]float32
	Affine{Bits: 4}.Decode(one[:], []byte{0}, []uint32{uint32(NaN)})
	require.True(t, math.IsNaN(float64(one[0])))
}

// Zeros of either sign read as exactly zero, and a row of nothing is stored in nothing.
func TestAffineZeros(t *testing.T) {
	for _, a := range affines {
		require.Equal(t, make([]float32, 50), a.stored(t, make([]float32, 50)))
		negative := slices.Repeat([]float32{float32(math.Copysign(0, -1))}, 50)
		require.Equal(t, make([]float32, 50), a.stored(t, negative))
		require.Empty(t, a.stored(t, nil))
	}
}

// A wider code never has a larger bound.
func TestAffineMoreBitsAreNoWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		last := math.Inf(1)
		for _, bits := range []int{2, 3, 4, 8} {
			bound := Affine{Bits: bits}.Bound(x)
			require.LessOrEqual(t, bound, last)
			last = bound
		}
	})
}

// Groups are stored by themselves, the short last one, too: what is in one changes
// nothing in another.
func TestAffineGroupsAreSeparate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		a := Affine{rapid.SampledFrom([]int{2, 3, 4, 8}).Draw(t, "bits"), 8 * rapid.IntRange(1, 5).Draw(t, "group/8")}
		whole := a.stored(t, x)
		require.Equal(t, (len(x)+a.Group-1)/a.Group, a.Words(len(x)))
		for i := 0; i < len(x); i += a.Group {
			end := min(i+a.Group, len(x))
			require.Equal(t, whole[i:end], Affine{Bits: a.Bits}.stored(t, x[i:end]))
		}
	})
}

// A value that is not finite is refused, wherever it stands.
func TestAffineRefusesWhatIsNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, a := range affines {
		for _, bad := range []float32{inf, -inf, nan} {
			for _, at := range []int{0, 31, 32, 49} {
				x := make([]float32, 50)
				x[at] = bad
				require.False(t, a.Encode(make([]byte, 50), make([]uint32, 50), x, false), "%s: %g at %d", a, bad, at)
				require.True(t, math.IsNaN(float64(bad)) || x[at] == bad, "it is not changed")
			}
		}
		x := []float32{1, inf, -2, nan, -inf}
		codes, words, back := make([]byte, 8), make([]uint32, 1), make([]float32, 5)
		require.True(t, a.Encode(codes, words, x, true))
		require.Equal(t, []float32{1, 2, -2, 0, -2}, x)
		a.Decode(back, codes, words)
		a.within(t, x, back)
	}
}

func TestSaturate(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct{ x, want []float32 }{
		{[]float32{1, -3, 2}, []float32{1, -3, 2}},
		{[]float32{inf, -3, -inf, nan}, []float32{3, -3, -3, 0}},
		{[]float32{inf, nan, -inf}, []float32{0, 0, 0}},
		{nil, nil},
	} {
		Saturate(c.x)
		require.Equal(t, len(c.want), len(c.x))
		for i, v := range c.want {
			require.Zero(t, c.x[i]-v)
		}
	}
}
