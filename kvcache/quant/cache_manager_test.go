package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/stretchr/testify/require"
)

// A token is read at its own distance from what was stored, at every width: the seed's
// round trips, with numbers that are not all the same.
func TestRoundTrips(t *testing.T) {
	for bits, tolerance := range map[int]float64{2: 0.7, 3: 0.35, 4: 0.15, 8: 0.01} {
		for _, dim := range []int{1, 2, 7, 32, 40, 128} {
			cfg := KVCacheConfig{MaxSeqLen: 20, NumHeads: 3, HeadDim: dim, QuantizationBits: bits}
			c := newCache(t, cfg)
			for i := range 20 {
				key, value := filledWith(0, c), filledWith(0, c)
				for k := range key {
					key[k], value[k] = float32(math.Sin(float64(i+k))), float32(math.Cos(float64(i*k)))
				}
				require.NoError(t, c.Append(key, value, 0))
				gotKey, gotValue := one(t, c, i)
				near(t, c, key, gotKey)
				near(t, c, value, gotValue)
				require.InDeltaSlice(t, key, gotKey, tolerance)
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	c := newCache(t, small(8, 4, nil))
	require.True(t, c.IsEmpty())
	require.Zero(t, c.Len())
	require.Zero(t, c.MemoryBytes())
	require.NoError(t, c.Evict(3))
	require.NoError(t, c.UpdateAttentionScores(nil))
	keys, values, err := c.Get(nil)
	require.NoError(t, err)
	require.Empty(t, keys)
	require.Empty(t, values)
	_, _, err = c.Get([]int{0})
	require.ErrorIs(t, err, ErrNotHeld{Layer: 0, Position: 0, Appended: 0})
	require.Empty(t, held(t, c))
}

func TestSingleEntry(t *testing.T) {
	c := filled(t, newCache(t, small(1, 4, nil)), 1)
	require.NoError(t, c.Evict(1))
	require.Equal(t, []int{0}, held(t, c))
	filled(t, c, 1)
	require.Equal(t, []int{1}, held(t, c), "a cache of one token holds the newest")
}

// Positions outlive eviction: the rest are where they were, and who is gone is named.
func TestPositionsAreStable(t *testing.T) {
	c := newCache(t, small(100, 8, evict.SlidingWindow{Window: 30, Sinks: 2}))
	for i := range 60 {
		require.NoError(t, c.Append(filledWith(float32(i), c), filledWith(float32(-i), c), 0))
	}
	require.NoError(t, c.Evict(20))
	keys, values, err := c.Get([]int{59, 1, 42, 42, 0})
	require.NoError(t, err)
	for i, p := range []float64{59, 1, 42, 42, 0} {
		require.InDelta(t, p, keys[i][5], 0.3)
		require.InDelta(t, -p, values[i][5], 0.3)
	}
	for _, missing := range []int{2, 41, 60, -1, math.MinInt, math.MaxInt} {
		_, _, err := c.Get([]int{0, missing, 1})
		require.ErrorIs(t, err, ErrNotHeld{Layer: 0, Position: missing, Appended: 60})
		require.ErrorIs(t, err, ErrNotHeld{})
	}
	_, _, err = c.Get([]int{5})
	require.ErrorContains(t, err, "evicted")
	_, _, err = c.Get([]int{60})
	require.ErrorContains(t, err, "60 tokens were appended")
}

func TestGetInto(t *testing.T) {
	c := filled(t, newCache(t, small(8, 4, nil)), 3)
	keys, values := make([]float32, 32), make([]float32, 32)
	require.NoError(t, c.GetInto(keys, values, []int{2, 0}))
	wantKey, wantValue := one(t, c, 2)
	require.Equal(t, wantKey, keys[:16])
	require.Equal(t, wantValue, values[:16])
	wantKey, _ = one(t, c, 0)
	require.Equal(t, wantKey, keys[16:])
	require.ErrorIs(t, c.GetInto(keys[:31], values, []int{2, 0}), backend.ErrArgument{})
	require.ErrorIs(t, c.GetInto(keys, values, []int{2, 3}), ErrNotHeld{})
	require.Equal(t, wantKey, keys[16:], "nothing was read")
}

// H2O keeps who was looked at, beside the newest: scores of the seed's test.
func TestH2OKeepsHeavyHitters(t *testing.T) {
	c := filled(t, newCache(t, small(100, 4, evict.H2O{Recent: 1})), 5)
	require.NoError(t, c.UpdateAttentionScores([]float64{0.1, 0.5, 0.2, 0.9, 0.3}))
	require.NoError(t, c.Evict(3))
	require.Equal(t, []int{1, 3, 4}, held(t, c))
	require.NoError(t, c.UpdateAttentionScores([]float64{1, 0, 0})) // they add up
	require.NoError(t, c.Evict(2))
	require.Equal(t, []int{1, 4}, held(t, c))
}

// Scores that make no sense are refused, and none of them counts.
func TestScoresAreChecked(t *testing.T) {
	c := filled(t, newCache(t, small(100, 4, evict.H2O{Recent: 1})), 4)
	for _, bad := range [][]float64{{1, 2, 3}, {1, 2, 3, 4, 5}, nil, {9, 9, math.NaN(), 0}, {9, 9, 0, -1}, {9, math.Inf(1), 0, 0}} {
		require.ErrorIs(t, c.UpdateAttentionScores(bad), backend.ErrArgument{})
	}
	for range 3 {
		require.NoError(t, c.UpdateAttentionScores([]float64{0, 0, math.MaxFloat64, 0}), "a sum that overflows stays the largest")
	}
	require.NoError(t, c.Evict(2))
	require.Equal(t, []int{2, 3}, held(t, c))
}

// What a ratio is made of: codes, and 4 bytes for each group.
func TestCompressionRatio(t *testing.T) {
	for _, w := range []struct {
		bits, dim int
		want      float64
	}{
		{8, 128, 512.0 / (128 + 4)}, {4, 128, 512.0 / (64 + 16)}, {3, 128, 512.0 / (48 + 16)}, {2, 128, 512.0 / (32 + 16)},
		{4, 80, 320.0 / (40 + 12)}, {3, 7, 28.0 / (3 + 4)}, {2, 1, 4.0 / (1 + 4)},
	} {
		c := newCache(t, KVCacheConfig{MaxSeqLen: 40, NumHeads: 5, HeadDim: w.dim, QuantizationBits: w.bits})
		require.InEpsilon(t, w.want, c.CompressionRatio(), 1e-12)
		filled(t, c, 17) // check compares with what was allocated
		require.Equal(t, int64(2*16*2*5*int(float64(4*w.dim)/w.want+0.5)), c.MemoryBytes())
	}
}

// Memory grows with the blocks, falls when they are given back, and these are used again.
func TestMemoryFollowsBlocks(t *testing.T) {
	c := filled(t, newCache(t, small(100, 4, nil)), 16)
	block := c.MemoryBytes()
	require.Equal(t, int64(16*2*2*(4+4)), block)
	filled(t, c, 1)
	require.Equal(t, 2*block, c.MemoryBytes())
	filled(t, c, 15)
	require.Equal(t, 2*block, c.MemoryBytes())
	filled(t, c, 68)
	require.Equal(t, 7*block, c.MemoryBytes())
	require.NoError(t, c.Evict(17))
	require.Equal(t, 2*block, c.MemoryBytes())
	filled(t, c, 83)
	require.Equal(t, 7*block, c.MemoryBytes())
	require.Equal(t, 7, c.memory.Blocks())
}

// Whatever the policy, a cache never exceeds its maximum, for one moment.
func TestNeverAboveTheMaximum(t *testing.T) {
	for _, p := range []evict.Policy{nil, evict.H2O{}, evict.H2O{Sinks: 50}, evict.SnapKV{Sinks: 4, Window: 4, Kernel: 3}, evict.PyramidKV{}, evict.SlidingWindow{Window: 1}} {
		c := newCache(t, small(17, 4, p))
		for range 100 {
			filled(t, c, 1)
			require.LessOrEqual(t, c.Len(), 17)
			require.LessOrEqual(t, c.memory.Peak(), 2)
		}
	}
}

func TestPyramidBudget(t *testing.T) {
	c := newCache(t, small(1000, 4, nil))
	require.Equal(t, []int{400, 300, 200, 100}, []int{c.PyramidBudget(0, 4), c.PyramidBudget(1, 4), c.PyramidBudget(2, 4), c.PyramidBudget(3, 4)})
	for _, layers := range []int{1, 2, 7, 32, 1000, 2000} {
		sum := 0
		for l := range layers {
			budget := c.PyramidBudget(l, layers)
			require.GreaterOrEqual(t, budget, c.PyramidBudget(l+1, layers))
			sum += budget
		}
		require.Equal(t, 1000, sum, "%d layers", layers)
	}
	for _, none := range [][2]int{{4, 4}, {5, 4}, {-1, 4}, {0, 0}, {0, -1}, {math.MaxInt, math.MaxInt}} { // the seed: a panic, or 2^64-1
		require.Zero(t, c.PyramidBudget(none[0], none[1]))
	}
}

// Layers are separate; under PyramidKV each has its budget of the whole.
func TestLayers(t *testing.T) {
	cfg := small(1000, 4, evict.PyramidKV{})
	cfg.Layers = 4
	c := newCache(t, cfg)
	r := rand.New(rand.NewPCG(4, 4))
	for range 500 {
		for l := range 4 {
			require.NoError(t, c.Append(noise(r, c), noise(r, c), l))
		}
	}
	require.Equal(t, 1000, c.Len())
	for i, want := range []int{400, 300, 200, 100} {
		l, err := c.Layer(i)
		require.NoError(t, err)
		require.Equal(t, want, l.Len())
		require.Equal(t, want, l.Limit())
		require.Equal(t, c.PyramidBudget(i, 4), l.Limit())
	}
	last, err := c.Layer(3)
	require.NoError(t, err)
	require.NoError(t, last.Evict(0))
	require.True(t, last.IsEmpty())
	require.Equal(t, 900, c.Len())
	_, _, err = last.Get([]int{499})
	require.ErrorIs(t, err, ErrNotHeld{Layer: 3, Position: 499, Appended: 500})

	even := cfg
	even.EvictionPolicy = evict.H2O{}
	c = newCache(t, even)
	require.Equal(t, 1000, c.layers[3].Limit(), "a policy of equal budgets: MaxSeqLen for each")
}

// Calls that do not say which layer they mean are refused where there are several.
func TestCallsWithoutALayer(t *testing.T) {
	cfg := small(8, 4, nil)
	cfg.Layers = 2
	c := newCache(t, cfg)
	_, _, err := c.Get([]int{0})
	require.ErrorIs(t, err, backend.ErrArgument{})
	_, err = c.Positions(nil)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.ErrorIs(t, c.GetInto(nil, nil, nil), backend.ErrArgument{})
	require.ErrorIs(t, c.Evict(1), backend.ErrArgument{})
	require.ErrorIs(t, c.UpdateAttentionScores(nil), backend.ErrArgument{})
	for _, layer := range []int{-1, 2, math.MaxInt} {
		require.ErrorIs(t, c.Append(filledWith(0, c), filledWith(0, c), layer), backend.ErrArgument{})
		_, err := c.Layer(layer)
		require.ErrorContains(t, err, "the cache has 2")
	}
	require.True(t, c.IsEmpty())
}

// stubborn is a policy of somebody else, with a mistake in it.
type stubborn struct {
	evict.Recency
	keep []int
}

func (p stubborn) Keep(dst []int, _ evict.Layer, _ int) []int { return append(dst, p.keep...) }

// short gives too few budgets.
type short struct{ evict.Recency }

func (short) Budgets(dst []int, _, _ int) []int { return dst }

// An answer that a policy may not give is an error, and nothing is lost.
func TestWrongPoliciesAreFound(t *testing.T) {
	for _, keep := range [][]int{{0, 1, 2, 3}, {1, 0}, {1, 1}, {-1}, {4}} {
		c := filled(t, newCache(t, small(4, 4, stubborn{keep: keep})), 4)
		require.ErrorIs(t, c.Evict(3), backend.ErrConfig{})
		require.ErrorIs(t, c.Append(filledWith(1, c), filledWith(1, c), 0), backend.ErrConfig{})
		require.Equal(t, []int{0, 1, 2, 3}, held(t, c))
	}
	_, err := New(small(4, 4, short{}))
	require.ErrorContains(t, err, "budgets for 0 of 1 layers")
	require.ErrorIs(t, filled(t, newCache(t, small(4, 4, nil)), 4).Evict(-1), backend.ErrArgument{})
}

// A cache that was full once appends, counts, evicts and reads without an allocation.
func TestWarmCallsAllocateNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	for _, p := range []evict.Policy{nil, evict.SlidingWindow{Window: 60, Sinks: 4}, evict.H2O{Sinks: 4}, evict.SnapKV{Window: 8, Kernel: 5}, evict.PyramidKV{}} {
		c := filled(t, newCache(t, small(70, 4, p)), 200)
		key, scores := filledWith(1, c), make([]float64, c.Len())
		keys, values, position := make([]float32, 16), make([]float32, 16), []int{0}
		require.Zero(t, testing.AllocsPerRun(200, func() {
			err := c.Append(key, key, 0)
			position[0] = c.layers[0].entries[c.Len()-1].position
			if err != nil || c.UpdateAttentionScores(scores) != nil || c.GetInto(keys, values, position) != nil {
				panic(err)
			}
		}), "%v", p)
	}
}
