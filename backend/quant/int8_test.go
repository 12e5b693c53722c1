package quant

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func storedInt8(t require.TestingT, x []float32) (codes []byte, back []float32) {
	codes, back = make([]byte, len(x)), make([]float32, len(x))
	scale, ok := EncodeInt8(codes, slices.Clone(x), false)
	require.True(t, ok)
	DecodeInt8(back, codes, scale)
	return codes, back
}

// Whatever a row looks like, its values are read within half a step, and the code -128
// is not used: a row and its negative are stored alike.
func TestInt8StaysWithinItsBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := drawRow(t)
		codes, back := storedInt8(t, x)
		bound, largest := BoundInt8(x), 0.0
		for i, v := range x {
			near(t, v, back[i], bound, "value %d", i)
			require.NotEqual(t, byte(0x80), codes[i])
			largest = max(largest, math.Abs(float64(v)))
		}
		require.LessOrEqual(t, bound, largest/127*(0.5+1.0/128)+0x1p-132+max(0, largest-farthest))
		opposite := make([]float32, len(x))
		for i, v := range x {
			opposite[i] = -v
		}
		_, mirrored := storedInt8(t, opposite)
		for i, v := range mirrored {
			require.Equal(t, -back[i], v)
		}
	})
}

// The largest magnitude reads as itself, but for the rounding of its division by 127, as far as a scale reaches.
func TestInt8KeepsTheLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for i := range 20000 {
		c := anyFloat(r)
		if i == 0 {
			c = largest
		}
		if abs(c) < 0x1p-120 {
			continue
		}
		_, back := storedInt8(t, []float32{c, 0})
		require.InEpsilon(t, min(max(c, -farthest), farthest), back[0], 0x1p-22)
		require.Zero(t, back[1])
	}
}

func TestInt8RefusesWhatIsNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, bad := range []float32{inf, -inf, nan} {
		_, ok := EncodeInt8(make([]byte, 3), []float32{1, bad, 2}, false)
		require.False(t, ok)
	}
	x := []float32{1, inf, -2, nan, -inf}
	codes := make([]byte, 5)
	scale, ok := EncodeInt8(codes, x, true)
	require.True(t, ok)
	require.Equal(t, []byte{64, 127, 0x81, 0, 0x81}, codes) // 63.5 rounds to even
	require.Equal(t, float32(2)/127, scale)
}
