package backend_test

import (
	"math"
	"testing"

	"github.com/go-gl/mathgl/mgl32"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
)

// resolved fills the defaults in for heads of dim elements.
func resolved(t require.TestingT, r backend.RoPE, dim int) backend.RoPE {
	out, err := r.Resolve(dim)
	require.NoError(t, err)
	return out
}

func TestRoPETable(t *testing.T) {
	r := backend.RoPE{Theta: 500000, Dims: 6}
	const positions = 100000
	table, err := r.Table(8, positions)
	require.NoError(t, err)
	require.Len(t, table, positions*6)
	for _, pos := range []int{0, 1, 2, 1000, positions - 1} {
		for i := range 3 {
			angle := float64(pos) * math.Pow(500000, -float64(2*i)/6)
			require.InDelta(t, math.Cos(angle), float64(table[pos*6+2*i]), 1e-7)
			require.InDelta(t, math.Sin(angle), float64(table[pos*6+2*i+1]), 1e-7)
		}
	}
	empty, err := r.Table(8, 0)
	require.NoError(t, err)
	require.Empty(t, empty)
}

// R(a)·R(b) = R(a+b), and the transpose turns back: cached keys can be moved.
func TestRoPERotationsCompose(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rope := resolved(r, backend.RoPE{}, 64)
		a, b := rapid.IntRange(0, 4000).Draw(r, "a"), rapid.IntRange(0, 4000).Draw(r, "b")
		i := rapid.IntRange(0, 31).Draw(r, "pair")
		ra, rb := rope.Rotation(a, i), rope.Rotation(b, i)
		near := func(have, want mgl32.Mat2) { // an absolute bound: elements of a rotation may be near 0
			for j := range have {
				require.InDelta(r, want[j], have[j], 1e-6)
			}
		}
		near(ra.Mul2(rb), rope.Rotation(a+b, i))
		near(ra.Transpose().Mul2(ra), mgl32.Ident2())
		near(ra.Transpose(), rope.Rotation(-a, i))
	})
}

// The scalings against the formulas that Hugging Face transformers computes
// (modeling_rope_utils.py), written out for the inverse frequencies.
func TestRoPEScalings(t *testing.T) {
	const dim, theta = 128, 10000.0
	plain := func(i int, theta float64) float64 { return 1 / math.Pow(theta, float64(2*i)/dim) }

	linear := resolved(t, backend.RoPE{Scaling: backend.LinearScaling, Factor: 4}, dim)
	ntk := resolved(t, backend.RoPE{Scaling: backend.NTKScaling, Factor: 2}, dim)
	llama3 := resolved(t, backend.RoPE{Theta: 500000, Scaling: backend.Llama3Scaling, Factor: 8, OriginalContext: 8192}, dim)
	yarn := resolved(t, backend.RoPE{Scaling: backend.YaRNScaling, Factor: 16, OriginalContext: 4096}, dim)
	require.InDelta(t, 0.1*math.Log(16)+1, yarn.AttentionFactor, 1e-15)
	smooth := resolved(t, backend.RoPE{Scaling: backend.YaRNScaling, Factor: 16, OriginalContext: 4096, NoTruncate: true}, dim)

	findCorrectionDim := func(rotations float64) float64 {
		return dim * math.Log(4096/(rotations*2*math.Pi)) / (2 * math.Log(theta))
	}
	low, high := math.Floor(findCorrectionDim(32)), math.Ceil(findCorrectionDim(1))
	for i := range dim / 2 {
		require.InEpsilon(t, plain(i, theta)/4, linear.Frequency(i), 1e-12)
		require.InEpsilon(t, plain(i, theta*math.Pow(2, 128.0/126)), ntk.Frequency(i), 1e-12)

		ramp := min(max((float64(i)-low)/(high-low), 0), 1)
		extrapolation := 1 - ramp
		require.InEpsilon(t, plain(i, theta)/16*(1-extrapolation)+plain(i, theta)*extrapolation, yarn.Frequency(i), 1e-12)
		from, to := findCorrectionDim(32), findCorrectionDim(1) // truncate: false
		extrapolation = 1 - min(max((float64(i)-from)/(to-from), 0), 1)
		require.InEpsilon(t, plain(i, theta)/16*(1-extrapolation)+plain(i, theta)*extrapolation, smooth.Frequency(i), 1e-12)

		inv := plain(i, 500000)
		wavelen := 2 * math.Pi / inv
		want := inv
		switch {
		case wavelen > 8192/1.0:
			want = inv / 8
		case wavelen >= 8192/4.0:
			smooth := (8192/wavelen - 1) / (4 - 1)
			want = (1-smooth)*inv/8 + smooth*inv
		}
		require.InEpsilon(t, want, llama3.Frequency(i), 1e-12, "pair %d", i)
	}
	// Both ends of each ramp are reached: the first pair is untouched, the last is interpolated.
	for _, r := range []backend.RoPE{yarn, llama3} {
		require.InEpsilon(t, 1, r.Frequency(0), 1e-12)
		require.InEpsilon(t, plain(63, r.Theta)/r.Factor, r.Frequency(63), 1e-12)
	}
}

func TestRoPEResolve(t *testing.T) {
	r := resolved(t, backend.RoPE{}, 80)
	require.Equal(t, backend.RoPE{Theta: 10000, Dims: 80, BetaFast: 32, BetaSlow: 1, LowFreqFactor: 1, HighFreqFactor: 4, AttentionFactor: 1}, r)
	require.Equal(t, r, resolved(t, r, 80), "twice is once")
	require.EqualValues(t, 1.5, resolved(t, backend.RoPE{Scaling: backend.YaRNScaling, Factor: 2, OriginalContext: 9, AttentionFactor: 1.5}, 8).AttentionFactor)

	nan := math.NaN()
	for _, bad := range []backend.RoPE{
		{Dims: 3}, {Dims: 82}, {Dims: -2}, {Theta: 1}, {Theta: -5}, {Theta: nan}, {Theta: math.Inf(1)},
		{Pairing: 2}, {Scaling: 5}, {Scaling: backend.LinearScaling}, {Scaling: backend.LinearScaling, Factor: 0.5},
		{Scaling: backend.LinearScaling, Factor: nan}, {Scaling: backend.NTKScaling, Factor: math.Inf(1)},
		{Scaling: backend.NTKScaling, Factor: 2, Dims: 2}, {Scaling: backend.YaRNScaling, Factor: 2},
		{Scaling: backend.YaRNScaling, Factor: 2, OriginalContext: 9, BetaFast: 1, BetaSlow: 2},
		{Scaling: backend.Llama3Scaling, Factor: 2, OriginalContext: 9, LowFreqFactor: 4, HighFreqFactor: 4},
		{Scaling: backend.Llama3Scaling, Factor: 2, OriginalContext: -1},
		{AttentionFactor: -1}, {AttentionFactor: nan}, {AttentionFactor: math.Inf(1)},
	} {
		_, err := bad.Resolve(80)
		require.ErrorIs(t, err, backend.ErrArgument{}, "%+v", bad)
		_, err = bad.Table(80, 4)
		require.ErrorIs(t, err, backend.ErrArgument{}, "%+v", bad)
	}
	_, err := backend.RoPE{}.Resolve(1)
	require.ErrorIs(t, err, backend.ErrArgument{})
	for _, positions := range []int{-1, math.MaxInt, math.MaxInt32} {
		_, err := backend.RoPE{}.Table(80, positions)
		require.ErrorIs(t, err, backend.ErrArgument{}, "%d positions", positions)
	}
}
