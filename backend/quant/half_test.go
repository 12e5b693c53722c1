package quant

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every half survives the way to float32 and back, NaN as NaN.
func TestHalfRoundTripsEveryCode(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := FromF16(h)
		if f != f {
			require.True(t, h&0x7c00 == 0x7c00 && h&0x3ff != 0)
			require.True(t, math.IsNaN(float64(FromF16(F16(f)))))
		} else {
			require.Equal(t, h, F16(f), "f16 %#04x", h)
		}
		b := FromBF16(h)
		if b != b {
			require.True(t, math.IsNaN(float64(FromBF16(BF16(b)))))
		} else {
			require.Equal(t, h, BF16(b), "bf16 %#04x", h)
		}
	}
}

// Between two neighbours the midpoint goes to the even one and its neighbours
// in float32 to the nearer one.
func TestHalfRoundsToNearestEven(t *testing.T) {
	codecs := []struct {
		name string
		enc  func(float32) uint16
		dec  func(uint16) float32
		last uint16 // largest finite code
	}{{"f16", F16, FromF16, 0x7bff}, {"bf16", BF16, FromBF16, 0x7f7f}}
	for _, c := range codecs {
		for h := uint16(0); h < c.last; h++ {
			lo, hi := c.dec(h), c.dec(h+1)
			mid := float32((float64(lo) + float64(hi)) / 2) // exact: float32 has more bits
			even := h + h&1
			for _, sign := range []float32{1, -1} {
				s := uint16(0)
				if sign < 0 {
					s = 0x8000
				}
				require.Equal(t, s|even, c.enc(sign*mid), "%s: between %v and %v", c.name, lo, hi)
				require.Equal(t, s|h, c.enc(sign*math.Nextafter32(mid, 0)), c.name)
				require.Equal(t, s|(h+1), c.enc(sign*math.Nextafter32(mid, hi)), c.name)
			}
		}
	}
	for h, want := range map[uint16]float32{0: 0, 1: 0x1p-24, 0x3ff: 0x3ffp-24, 0x400: 0x1p-14, 0x3c00: 1, 0x3555: 0x1.554p-2, 0xc000: -2, 0x7bff: 65504} {
		require.Equal(t, want, FromF16(h), "f16 %#04x", h)
	}
	inf := float32(math.Inf(1))
	require.Equal(t, uint16(0x7c00), F16(65520), "half way to 2^16 rounds to infinity")
	require.Equal(t, uint16(0x7bff), F16(math.Nextafter32(65520, 0)))
	require.Equal(t, uint16(0xfc00), F16(-inf))
	require.Equal(t, uint16(0x7f80), BF16(math.MaxFloat32))
	require.Equal(t, uint16(0x8000), F16(float32(math.Copysign(0, -1))))
}
