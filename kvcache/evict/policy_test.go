package evict

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

func scored(scores ...float32) Layer { return Layer{Len: len(scores), Heads: 1, Scores: scores} }

func TestKeep(t *testing.T) {
	ten := scored(9, 1, 5, 0, 7, 2, 2, 0, 0, 0)
	heads := Layer{Len: 4, Heads: 2, Scores: []float32{3, 0, 1, 0 /**/, 0, 2, 3, 0}}
	for _, c := range []struct {
		policy Policy
		layer  Layer
		budget int
		want   []int
	}{
		{Recency{}, ten, 3, []int{7, 8, 9}},
		{SlidingWindow{Window: 3, Sinks: 2}, ten, 100, []int{0, 1, 7, 8, 9}},
		{SlidingWindow{Window: 6, Sinks: 4}, ten, 5, []int{0, 1, 2, 3, 9}}, // R3: the seed left 10
		{SlidingWindow{Window: 6, Sinks: 4}, ten, 0, nil},
		{SlidingWindow{Window: 6, Sinks: 4}, ten, 2, []int{0, 1}},
		{H2O{}, ten, 4, []int{0, 4, 8, 9}},
		{H2O{}, ten, 3, []int{0, 8, 9}},
		{H2O{Sinks: 2, Recent: 1}, ten, 5, []int{0, 1, 2, 4, 9}},
		{H2O{Recent: 2}, ten, 6, []int{0, 2, 4, 6, 8, 9}}, // of equals the newer
		{H2O{Recent: 9}, ten, 2, []int{8, 9}},
		{H2O{}, Layer{Len: 6}, 2, []int{4, 5}},
		{H2O{Recent: 1}, heads, 2, []int{2, 3}}, // 3, 2, 4 over heads
		{SnapKV{Window: 2}, ten, 4, []int{0, 4, 8, 9}},
		{SnapKV{Window: 2, Kernel: 3}, ten, 4, []int{0, 1, 8, 9}}, // neighbours come along
		{SnapKV{Window: 2, Kernel: 3, Sinks: 1}, ten, 6, []int{0, 1, 4, 5, 8, 9}},
		{SnapKV{Window: 2, Kernel: 99}, ten, 4, []int{6, 7, 8, 9}}, // all alike
		{PyramidKV{SnapKV: SnapKV{Window: 2}}, ten, 4, []int{0, 4, 8, 9}},
	} {
		require.Equal(t, c.want, c.policy.Keep(nil, c.layer, c.budget), "%s of %d", c.policy, c.budget)
	}
}

// Numbers that make no sense change nothing that is kept by right, and never panic.
func TestKeepSurvivesNonsense(t *testing.T) {
	nan := float32(math.NaN())
	bad := []Policy{
		Recency{}, SlidingWindow{-1, -1}, SlidingWindow{math.MaxInt, math.MaxInt}, H2O{-1, -1}, H2O{math.MaxInt, math.MaxInt},
		SnapKV{-1, -1, -2}, SnapKV{math.MaxInt, math.MaxInt, math.MaxInt}, SnapKV{1, 1, 4}, PyramidKV{SnapKV{-1, -1, -1}, -1},
	}
	for _, p := range bad {
		for _, l := range []Layer{
			{}, {Len: -1}, {Len: 3, Heads: math.MaxInt}, {Len: 3, Heads: -1, Scores: []float32{1}},
			{Len: 3, Heads: 2, Scores: []float32{1, 2, 3}}, {Len: 6, Heads: 1, Scores: []float32{nan, nan, nan, nan, nan, nan}},
		} {
			for _, budget := range []int{math.MinInt, -1, 0, 1, 2, 4, math.MaxInt} {
				got := p.Keep(nil, l, budget)
				require.LessOrEqual(t, len(got), max(budget, 0))
				require.LessOrEqual(t, len(got), max(l.Len, 0))
				require.LessOrEqual(t, p.Limit(budget), max(budget, 0))
			}
		}
		require.Len(t, p.Budgets(nil, -5, 3), 3)
		require.Empty(t, p.Budgets(nil, 5, -3))
	}
	require.Equal(t, []int{1, 3}, H2O{Recent: 1}.Keep(nil, scored(nan, 2, nan, 0), 2), "NaN is 0")
}

func TestValidate(t *testing.T) {
	for _, p := range []Policy{Recency{}, SlidingWindow{Window: 1}, H2O{}, SnapKV{}, SnapKV{Kernel: 7}, PyramidKV{}, PyramidKV{Beta: 20}} {
		require.NoError(t, p.Validate(), "%s", p)
	}
	for field, policies := range map[string][]Policy{
		"Window": {SlidingWindow{}, SlidingWindow{Window: -1}, SnapKV{Window: -1}, PyramidKV{SnapKV: SnapKV{Window: -1}}, SnapKV{Window: most + 1}},
		"Sinks":  {SlidingWindow{1, -1}, H2O{Sinks: -1}, SnapKV{Sinks: -1}, SlidingWindow{1, math.MaxInt}},
		"Recent": {H2O{Recent: -1}},
		"Kernel": {SnapKV{Kernel: -1}, SnapKV{Kernel: 4}},
		"Beta":   {PyramidKV{Beta: -1}, PyramidKV{Beta: math.MaxInt}},
	} {
		for _, p := range policies {
			var err ErrPolicy
			require.ErrorAs(t, p.Validate(), &err, "%s", p)
			require.Equal(t, field, err.Field)
			require.ErrorIs(t, err, ErrPolicy{})
			require.ErrorContains(t, err, field+"=")
		}
	}
}

func TestNames(t *testing.T) {
	for want, p := range map[string]Policy{
		"recency": Recency{}, "sliding(window=64,sinks=4)": SlidingWindow{64, 4},
		"h2o(sinks=4,recent=half)": H2O{Sinks: 4}, "h2o(sinks=0,recent=8)": H2O{Recent: 8},
		"snapkv(sinks=4,window=16,kernel=7)":            SnapKV{4, 16, 7},
		"pyramidkv(sinks=4,window=16,kernel=7,beta=20)": PyramidKV{SnapKV{4, 16, 7}, 20},
	} {
		require.Equal(t, want, p.String())
	}
	require.False(t, Recency{}.NeedsScores() || SlidingWindow{}.NeedsScores())
	require.True(t, H2O{}.NeedsScores() && SnapKV{}.NeedsScores() && PyramidKV{}.NeedsScores())
}

// all are the policies as somebody would use them.
var all = []Policy{Recency{}, SlidingWindow{1020, 4}, H2O{Sinks: 4}, SnapKV{4, 32, 7}, PyramidKV{SnapKV: SnapKV{4, 32, 7}}}

// noisy is a layer with scores of many heads, some of them far above the others.
func noisy(n, heads int, scratch *Scratch) Layer {
	r := rand.New(rand.NewPCG(1, 2))
	l := Layer{Len: n, Heads: heads, Scores: make([]float32, n*heads), Scratch: scratch}
	for i := range l.Scores {
		l.Scores[i] = float32(math.Exp(2 * r.NormFloat64()))
	}
	return l
}

func TestKeepAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	dst, l := make([]int, 0, 2000), noisy(2000, 4, new(Scratch))
	for _, p := range all {
		for _, budget := range []int{100, 1900} {
			require.Zero(t, testing.AllocsPerRun(5, func() { p.Keep(dst, l, budget) }), "%s", p)
		}
	}
}

func BenchmarkKeep(b *testing.B) {
	for _, p := range all {
		for _, c := range []struct {
			name          string
			heads, budget int
		}{{"one goes", 1, 4095}, {"half of 8 heads", 8, 2048}} {
			b.Run(p.String()+"/"+c.name, func(b *testing.B) {
				dst, l := make([]int, 0, 4096), noisy(4096, c.heads, new(Scratch))
				b.ReportAllocs()
				for b.Loop() {
					p.Keep(dst, l, c.budget)
				}
			})
		}
	}
}
