package cpu

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// int8QueryLimit is the largest error of an element that rounding queries to int8 may
// cause, where queries, keys and values have unit variance. The step of a row of d such
// queries is about √(2 ln d)/127, so its error is about 0.0065 a score, which n keys
// average to 0.0065*√(e/n).
const int8QueryLimit = 5e-3

// Rounded queries stay near the exact result on the same cache, and leave the mass
// what it was, about.
func TestInt8QueryIsNearTheExactResult(t *testing.T) {
	for _, dt := range int8Query() {
		for _, c := range []scene{
			{qHeads: 8, kvHeads: 2, kDim: 128, vDim: 64, ctx: []int{1030}, queries: []int{1}, block: 16},
			{qHeads: 3, kvHeads: 1, kDim: 80, vDim: 96, ctx: []int{700, 333}, queries: []int{9, 1}, block: 32, mass: true},
			{qHeads: 1, kvHeads: 1, kDim: 64, vDim: 64, ctx: []int{2049}, queries: []int{2}, threads: 4, mask: mask{window: 900, sinks: 4}},
		} {
			t.Run(fmt.Sprint(dt, c.kDim), func(t *testing.T) {
				c.act, c.k, c.v = backend.F32, dt, dt
				st := c.set(t, 11)
				exact := st.attend(t)
				st.params.Int8Query = true
				if c.mass {
					require.NoError(t, st.be.Fill(st.s, st.params.Out.Scores.Buf, 0, st.params.Out.Scores.Buf.Len(), 0))
				}
				got := st.attend(t)
				require.NotEqual(t, exact.out, got.out)
				for i, want := range exact.out {
					require.InDelta(t, want, got.out[i], int8QueryLimit)
				}
				for i, want := range exact.lse {
					require.InDelta(t, want, got.lse[i], int8QueryLimit)
				}
				for i, want := range exact.mass {
					require.InDelta(t, want, got.mass[i], 0.05*float64(want))
				}
			})
		}
	}
}

// A query that is not finite spoils its own row and no other.
func TestInt8QueryNotFinite(t *testing.T) {
	c := scene{qHeads: 4, kvHeads: 1, kDim: 64, vDim: 8, act: backend.F32, k: backend.Int8, v: backend.Int8, ctx: []int{40}, queries: []int{1}, int8Query: true}
	st := c.set(t, 1)
	want := st.attend(t)
	view[float32](st.params.Q.Buf)[1*64+5] = float32(math.Inf(1))
	got := st.attend(t)
	require.Equal(t, want.out[:8], got.out[:8])
	require.Equal(t, want.out[16:], got.out[16:])
	for _, x := range got.out[8:16] {
		require.True(t, math.IsNaN(float64(x)))
	}
}

// Sums of products are exact, whatever the dim and however large the codes.
func TestIntegerProductsAreExact(t *testing.T) {
	for _, n := range []int{0, 1, 32, exactTerms - 1, exactTerms, exactTerms + 1, 200_000} {
		for _, x := range []int8{-128, -127, -1, 0, 1, 127} {
			for _, y := range []int8{-128, 0, 127} {
				pairs, codes := make([]int64, n), make([]byte, n)
				for i := range pairs {
					pairs[i], codes[i] = int64(x)+int64(y)<<32, 255
				}
				low, high := products(pairs, codes)
				require.Equal(t, [2]int64{int64(n) * 255 * int64(x), int64(n) * 255 * int64(y)}, [2]int64{low, high}, "%d of %d and %d", n, x, y)
			}
		}
	}
}
