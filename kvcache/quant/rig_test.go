package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	codec "github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/stretchr/testify/require"
)

// newCache is a cache whose books are checked at the end of the test.
func newCache(t testing.TB, cfg KVCacheConfig) *CacheManager {
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { check(t, c) })
	return c
}

// small is a config of one layer.
func small(max, bits int, p evict.Policy) KVCacheConfig {
	return KVCacheConfig{MaxSeqLen: max, NumHeads: 2, HeadDim: 8, QuantizationBits: bits, EvictionPolicy: p}
}

// check counts blocks, slots and bytes, and compares with what the cache says.
func check(t require.TestingT, c *CacheManager) {
	require.NoError(t, c.memory.Check()) // blocks that were given back have no memory
	held, tokens, bytes := 0, 0, 0
	for i := range c.layers {
		l := &c.layers[i]
		held += len(l.table)
		tokens += l.Len()
		require.LessOrEqual(t, l.Len(), l.Limit())
		require.Len(t, l.table, (l.Len()+15)/16, "blocks of %d tokens", l.Len())
		slots, last := make([]bool, l.Len()), -1
		for _, e := range l.entries {
			require.False(t, slots[e.slot], "slot %d is used twice", e.slot)
			slots[e.slot] = true
			require.Greater(t, e.position, last)
			last = e.position
		}
		require.Less(t, last, max(l.appended, 1))
		for _, b := range l.table {
			r := c.memory.Rows(b, 0, blockSize)
			bytes += len(r.Codes) + 4*len(r.Words)
		}
	}
	require.Equal(t, held, c.memory.Held())
	require.Equal(t, tokens, c.Len())
	require.Equal(t, int64(bytes), c.MemoryBytes())
	if held > 0 {
		perToken := float64(bytes) / float64(16*held)
		require.InEpsilon(t, float64(8*c.cfg.NumHeads*c.cfg.HeadDim)/perToken, c.CompressionRatio(), 1e-12)
	}
}

// filled appends n tokens of noise.
func filled(t testing.TB, c *CacheManager, n int) *CacheManager {
	r := rand.New(rand.NewPCG(1, 1))
	for range n {
		require.NoError(t, c.Append(noise(r, c), noise(r, c), 0))
	}
	return c
}

func noise(r *rand.Rand, c *CacheManager) []float32 {
	x := make([]float32, c.cfg.NumHeads*c.cfg.HeadDim)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// filledWith is a vector of one number.
func filledWith(v float32, c *CacheManager) []float32 {
	x := make([]float32, c.cfg.NumHeads*c.cfg.HeadDim)
	for i := range x {
		x[i] = v
	}
	return x
}

// one reads a position.
func one(t testing.TB, c *CacheManager, position int) (key, value []float32) {
	keys, values, err := c.Get([]int{position})
	require.NoError(t, err)
	return keys[0], values[0]
}

// held is the positions of the only layer.
func held(t testing.TB, c *CacheManager) []int {
	positions, err := c.Positions(nil)
	require.NoError(t, err)
	return positions
}

// near fails where a value is further from what was stored than its group's bound.
func near(t require.TestingT, c *CacheManager, want, got []float32) {
	require.Len(t, got, len(want))
	a, dim := c.format.Affine, c.cfg.HeadDim
	for first := 0; first < len(want); {
		n := dim - first%dim
		if a.Group > 0 {
			n = min(n, a.Group-first%dim%a.Group)
		}
		bound := codec.Affine{Bits: a.Bits}.Bound(want[first : first+n])
		for i := first; i < first+n; i++ {
			if !(math.Abs(float64(want[i])-float64(got[i])) <= bound) {
				require.Failf(t, "beyond its bound", "element %d: %g reads as %g, bound %g", i, want[i], got[i], bound)
			}
		}
		first += n
	}
}
