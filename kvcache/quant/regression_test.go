package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/stretchr/testify/require"
)

// What was found in the seed, ruvector-attention's CacheManager, by number.

// R1: a head of equal numbers was read as zeros, 100 as 15.
func TestR1ConstantHeadSurvives(t *testing.T) {
	for _, bits := range []int{2, 3, 4, 8} {
		c := newCache(t, small(100, bits, nil))
		for i, v := range []float32{0.5, -0.3, 100, 7, 0, -1e-6, 65504} {
			require.NoError(t, c.Append(filledWith(v, c), filledWith(-v, c), 0))
			key, value := one(t, c, i)
			for _, got := range key {
				require.InDelta(t, v, got, math.Abs(float64(v))/500, "%d bits", bits)
			}
			for _, got := range value {
				require.InDelta(t, -v, got, math.Abs(float64(v))/500, "%d bits", bits)
			}
		}
	}
}

// R2: a head whose range is below 1.2e-7 was read as zeros.
func TestR2SmallMagnitudesSurvive(t *testing.T) {
	for _, bits := range []int{2, 3, 4, 8} {
		for _, size := range []float32{1e-7, 1e-8, 1e-20, 1e-36} {
			c := newCache(t, small(4, bits, nil))
			key := filledWith(0, c)
			for i := range key {
				key[i] = size * float32(i%8-3) / 4
			}
			require.NoError(t, c.Append(key, key, 0))
			got, _ := one(t, c, 0)
			near(t, c, key, got)
			require.InEpsilon(t, size, got[7], 0.02, "the largest")
			require.InEpsilon(t, -0.75*size, got[0], 0.1, "the lowest")
		}
	}
}

// R3: a sliding window grew to 68 of a maximum of 8, and did not obey a budget.
func TestR3SlidingWindowObeysItsBudget(t *testing.T) {
	c := newCache(t, small(8, 4, evict.SlidingWindow{Window: 64, Sinks: 4}))
	for i := range 100 {
		filled(t, c, 1)
		require.Equal(t, min(i+1, 8), c.Len())
	}
	require.Equal(t, []int{0, 1, 2, 3, 96, 97, 98, 99}, held(t, c))
	c = filled(t, newCache(t, small(100, 4, evict.SlidingWindow{Window: 6, Sinks: 4})), 10)
	require.NoError(t, c.Evict(5))
	require.Equal(t, []int{0, 1, 2, 3, 9}, held(t, c))
	require.NoError(t, c.Evict(0))
	require.True(t, c.IsEmpty())
	require.Zero(t, c.MemoryBytes())
}

// R4: it grew to the maximum of 100, fell to 68 and grew again.
func TestR4SlidingWindowHasNoSawTooth(t *testing.T) {
	c := newCache(t, small(100, 4, evict.SlidingWindow{Window: 64, Sinks: 4}))
	for i := range 300 {
		filled(t, c, 1)
		require.Equal(t, min(i+1, 68), c.Len())
	}
	require.Equal(t, 68, c.layers[0].Limit())
}

// R5: once tokens had scores, every new one was evicted by its own append.
func TestR5NewTokensAreNotStarved(t *testing.T) {
	for _, p := range []evict.Policy{evict.H2O{}, evict.H2O{Recent: 1}, evict.SnapKV{}, evict.PyramidKV{}} {
		c := filled(t, newCache(t, small(4, 4, p)), 4)
		require.NoError(t, c.UpdateAttentionScores([]float64{4, 3, 2, 1}))
		for i := range 10 {
			filled(t, c, 1)
			positions := held(t, c)
			require.Len(t, positions, 4)
			require.Equal(t, 4+i, positions[3], "%s", p)
			require.NoError(t, c.UpdateAttentionScores([]float64{0.4, 0.3, 0.2, 0.1}))
		}
		require.Equal(t, 0, held(t, c)[0], "the heavy hitter stays under %s", p)
	}
}

// R5 again: nor are tokens starved that came since scores were last told.
func TestR5NewTokensStayUntilTheyAreScored(t *testing.T) {
	for _, p := range []evict.Policy{evict.H2O{}, evict.SnapKV{}, evict.PyramidKV{}} {
		c := filled(t, newCache(t, small(8, 4, p)), 8)
		require.NoError(t, c.UpdateAttentionScores([]float64{1, 1, 1, 1, 1, 1, 1, 1}))
		filled(t, c, 10)
		require.Equal(t, []int{16, 17}, held(t, c)[6:], "%s", p)
	}
}

// R6: bits were not checked: 0 gave NaN, 9 wrong values, 32 a shift overflow.
func TestR6BitsAreChecked(t *testing.T) {
	for _, bits := range []int{-1, 1, 5, 6, 7, 9, 16, 32, 64, math.MaxInt} {
		_, err := New(small(8, bits, nil))
		require.ErrorIs(t, err, backend.ErrConfig{})
		require.ErrorContains(t, err, "QuantizationBits")
	}
	c, err := New(small(8, 0, nil))
	require.NoError(t, err)
	require.Equal(t, 8, c.Config().QuantizationBits)
}

// R7: NaN was stored as the lowest value, and an infinity made a head NaN, without an error.
func TestR7NotFiniteIsAnError(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, bits := range []int{2, 3, 4, 8} {
		c := filled(t, newCache(t, small(4, bits, nil)), 4) // full: it would evict
		cfg := small(4, bits, nil)
		cfg.Saturate = true
		lenient := newCache(t, cfg)
		for _, bad := range []float32{inf, -inf, float32(math.NaN())} {
			key := noise(rand.New(rand.NewPCG(2, 2)), c)
			good := noise(rand.New(rand.NewPCG(3, 3)), c)
			key[9] = bad
			require.ErrorIs(t, c.Append(key, good, 0), backend.ErrNonFinite{})
			require.ErrorContains(t, c.Append(good, key, 0), "value of layer 0, head 1")
			require.Equal(t, []int{0, 1, 2, 3}, held(t, c))

			require.NoError(t, lenient.Append(key, good, 0))
			require.True(t, key[9] != key[9] || key[9] == bad, "the caller's memory is not touched")
			got, _ := one(t, lenient, lenient.Len()-1)
			for _, v := range got {
				require.Less(t, math.Abs(float64(v)), 10.0)
			}
		}
	}
}

// R8: no heads were a division by zero, and sinks and a window could overflow.
func TestR8SizesAreChecked(t *testing.T) {
	for field, change := range map[string]func(*KVCacheConfig){
		"NumHeads":    func(c *KVCacheConfig) { c.NumHeads = 0 },
		"HeadDim":     func(c *KVCacheConfig) { c.HeadDim = -1 },
		"HeadDim=":    func(c *KVCacheConfig) { c.NumHeads, c.HeadDim = math.MaxInt, math.MaxInt },
		"HeadDim=2":   func(c *KVCacheConfig) { c.NumHeads, c.HeadDim = math.MaxInt/2+1, 2 },
		"MaxSeqLen":   func(c *KVCacheConfig) { c.MaxSeqLen = 0 },
		"MaxSeqLen=":  func(c *KVCacheConfig) { c.MaxSeqLen = math.MaxInt },
		"MaxSeqLen=9": func(c *KVCacheConfig) { c.MaxSeqLen, c.Layers = 9e9, maxLayers },
		"Layers":      func(c *KVCacheConfig) { c.Layers = -1 },
		"Layers=":     func(c *KVCacheConfig) { c.Layers = math.MaxInt },
		"EvictionPolicy": func(c *KVCacheConfig) {
			c.EvictionPolicy = evict.SlidingWindow{Window: math.MaxInt, Sinks: math.MaxInt}
		},
		"Window=0":              func(c *KVCacheConfig) { c.EvictionPolicy = evict.SlidingWindow{Sinks: 4} },
		"Sinks=-1":              func(c *KVCacheConfig) { c.EvictionPolicy = evict.H2O{Sinks: -1} },
		"of 9 may hold nothing": func(c *KVCacheConfig) { c.EvictionPolicy, c.Layers = evict.PyramidKV{}, 9 },
	} {
		cfg := small(8, 4, nil)
		change(&cfg)
		_, err := New(cfg)
		require.ErrorIs(t, err, backend.ErrConfig{}, field)
		require.ErrorContains(t, err, field)
	}
}
