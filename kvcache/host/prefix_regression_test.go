package host

import (
	"errors"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Defects of earlier host prefix caches that this one does not have.

// hostStub is a runner's cache that misbehaves as told.
type hostStub struct {
	*Dense[float32]
	rows   func(layer, first int) (keys, values []float32, err error)
	loaded *CachedKvState[float32]
	fail   error
	length int // 0: that of the rows
}

func (h *hostStub) Len() int {
	if h.length > 0 {
		return h.length
	}
	return h.Dense.Len()
}

func (h *hostStub) Rows(layer, first int) ([]float32, []float32, error) {
	if h.rows != nil {
		return h.rows(layer, first)
	}
	return h.Dense.Rows(layer, first)
}

func (h *hostStub) Load(s *CachedKvState[float32]) error {
	if h.fail == nil {
		h.loaded, h.length = s, s.Len()
	}
	return h.fail
}

func newHostStub(tokens []uint32) *hostStub {
	return &hostStub{Dense: hostCache(0, hostShape, tokens)}
}

// A prefix that several prompts share, or a shorter prompt, was a miss.
func TestRegressionPrefixBareSharedPrefix(t *testing.T) {
	for _, bs := range []int{1, 2, 16} {
		c := newHostPrefix(t, PrefixCacheConfig{BlockSize: bs})
		c.put(t, 1, 2, 3, 4, 5)
		require.Equal(t, 4, c.find(t, 1, 2, 3, 4, 9))
		require.Equal(t, 4, c.find(t, 1, 2, 3, 4))
		c.put(t, 1, 2, 3, 4, 6)
		require.Equal(t, 4, c.find(t, 1, 2, 3, 4, 9))
	}
}

// An accessor's error made an entry without content, which restored stale memory.
func TestRegressionPrefixSwallowedAccessorError(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MaxEntries: 1})
	c.put(t, prompt(500, 20)...)
	before := c.MemoryUsage()
	broken := errors.New("cache is on fire")
	tokens := prompt(0, 20)
	good := hostCache(0, hostShape, tokens)
	for name, rows := range map[string]func(layer, first int) ([]float32, []float32, error){
		"error":      func(int, int) ([]float32, []float32, error) { return nil, nil, broken },
		"empty":      func(int, int) ([]float32, []float32, error) { return nil, nil, nil },
		"short keys": func(l, f int) ([]float32, []float32, error) { return good.keys[l][:3], good.values[l], nil },
		"no values":  func(l, f int) ([]float32, []float32, error) { return good.keys[l], nil, nil },
		"half a row": func(l, f int) ([]float32, []float32, error) { return good.keys[l][:4], good.values[l][:4], nil },
		"second block": func(l, f int) ([]float32, []float32, error) {
			if f >= 16 {
				return nil, nil, broken
			}
			return good.Rows(l, f)
		},
		"second layer": func(l, f int) ([]float32, []float32, error) {
			if l > 0 {
				return nil, nil, broken
			}
			return good.Rows(l, f)
		},
	} {
		from := newHostStub(tokens)
		from.rows = rows
		stored, err := c.Store(tokens, from)
		require.False(t, stored, name)
		if !errors.Is(err, broken) {
			require.ErrorIs(t, err, backend.ErrArgument{}, name)
		}
		require.Equal(t, before, c.MemoryUsage())
		require.Zero(t, c.find(t, tokens...))
		require.Equal(t, 20, c.find(t, prompt(500, 20)...))
	}
}

// A prompt that was too large alone evicted everything, itself included.
func TestRegressionPrefixOversizeEvictsAll(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MaxBytes: 20_000})
	for i := range 5 {
		c.put(t, prompt(100*i, 20)...)
	}
	before := c.MemoryUsage()
	for _, n := range []int{1000, 1 << 16} {
		from := newHostStub(prompt(0, n))
		from.rows = func(int, int) ([]float32, []float32, error) { panic("read in vain") }
		_, err := c.Store(prompt(0, n), from)
		require.ErrorIs(t, err, ErrOversize{})
		m := from.Dense
		s, err := NewCachedKvState(m.keys, m.values, n)
		require.NoError(t, err)
		_, err = c.StoreSnapshot(prompt(0, n), s)
		require.ErrorIs(t, err, ErrOversize{})
	}
	require.Equal(t, before, c.MemoryUsage())
	require.Equal(t, 5, c.Len())

	huge := &hostShaped{layers: math.MaxInt / 2, kvDim: math.MaxInt / 2}
	for _, most := range []int64{512 << 20, math.MaxInt64} {
		fresh := newHostPrefix(t, PrefixCacheConfig{MaxBytes: most})
		_, err := fresh.Store(prompt(0, 4), huge)
		require.Equal(t, ErrOversize{Need: math.MaxInt64, Max: most}, err)
	}

	// The largest that fits does, and nothing but it has to be left.
	for n := 1; ; n++ {
		tokens := prompt(7000, n)
		stored, err := c.Store(tokens, hostCache(0, hostShape, tokens))
		if err != nil {
			require.Equal(t, n-1, c.find(t, prompt(7000, n-1)...))
			require.Greater(t, c.MemoryUsage(), int64(15_000))
			break
		}
		require.Equal(t, n >= DefaultMinPrefixLen, stored)
		c.verify(t)
	}
}

// hostShaped has a shape and no rows.
type hostShaped struct{ layers, kvDim int }

func (h *hostShaped) NumLayers() int { return h.layers }
func (h *hostShaped) KVDim() int     { return h.kvDim }
func (h *hostShaped) Len() int       { return math.MaxInt }
func (h *hostShaped) Rows(int, int) (keys, values []float32, err error) {
	return nil, nil, errors.New("no rows")
}

// Snapshots were made after generation: longer than their key, so that a restore left
// the position after the prompt. Others were shorter.
func TestRegressionPrefixLengthIsNotTheStates(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	full := prompt(0, 60)
	stored, err := c.Store(full[:35], hostCache(0, hostShape, full))
	require.NoError(t, err)
	require.True(t, stored)
	n, s, ok := c.Lookup(full)
	require.True(t, ok)
	require.Equal(t, 35, n)
	require.Equal(t, 35, s.Len())
	target := newHostStub(prompt(0, 1))
	require.NoError(t, c.Restore(s, target))
	require.Equal(t, 35, target.Len())

	_, err = c.Store(full, hostCache(0, hostShape, full[:59]))
	require.ErrorIs(t, err, backend.ErrArgument{})
	for _, n := range []int{34, 36} {
		_, err = c.StoreSnapshot(full[:n], s)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	require.Equal(t, 35, c.find(t, full...))
}

// A restore checked neither layers nor dims, and clamped.
func TestRegressionPrefixRestoreUnchecked(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	c.put(t, prompt(0, 20)...)
	_, s, _ := c.Lookup(prompt(0, 20))
	for _, shape := range []kvShape{{1, 3}, {3, 3}, {2, 2}, {2, 4}, {0, 3}, {2, 0}} {
		target := &hostStub{Dense: hostCache(0, kvShape{max(shape.layers, 1), shape.kvDim}, prompt(0, 5))}
		target.keys = target.keys[:shape.layers]
		require.ErrorIs(t, c.Restore(s, target), backend.ErrArgument{}, "%v", shape)
		require.Nil(t, target.loaded)
	}
	target := newHostStub(prompt(0, 5))
	target.fail = backend.ErrCapacity{Package: "host", Have: 20, Max: 5}
	require.ErrorIs(t, c.Restore(s, target), backend.ErrCapacity{})
	target.fail = nil
	require.NoError(t, c.Restore(s, target))

	clamped := &clampedTarget{newHostStub(prompt(0, 5))}
	require.ErrorIs(t, c.Restore(s, clamped), backend.ErrArgument{})
}

// clampedTarget takes what it has room for and says nothing.
type clampedTarget struct{ *hostStub }

func (c *clampedTarget) Load(*CachedKvState[float32]) error { return nil }

// Any prompt with a key of length 0 matched every query.
func TestRegressionPrefixEmptyKey(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MinPrefixLen: 1})
	stored, err := c.Store(nil, hostCache(0, hostShape, prompt(0, 3)))
	require.NoError(t, err)
	require.False(t, stored)
	_, err = NewCachedKvState([][]float32{{}}, [][]float32{{}}, 0)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.Zero(t, c.find(t, 1, 2, 3))
	c.put(t, 7)
	require.Equal(t, 1, c.find(t, 7, 8))
	require.Zero(t, c.find(t, 8, 7))
}

// A miss made the path that it went more recent.
func TestRegressionPrefixMissTouches(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MaxEntries: 2, MinPrefixLen: 20, BlockSize: 4})
	c.put(t, prompt(0, 20)...)
	c.put(t, prompt(100, 20)...)
	require.Zero(t, c.find(t, prompt(0, 19)...))
	c.put(t, prompt(200, 20)...)
	require.Zero(t, c.find(t, prompt(0, 20)...))
	require.Equal(t, 20, c.find(t, prompt(100, 20)...))
}

// Splits stayed after the branch that made them had gone.
func TestRegressionPrefixSplitsRemain(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MaxEntries: 1})
	c.put(t, prompt(0, 64)...)
	nodes := c.store.tree.Stats().Nodes
	for i := range 20 {
		c.put(t, append(prompt(0, 32), prompt(1000+i, 32)...)...)
	}
	require.Equal(t, nodes, c.store.tree.Stats().Nodes)
	require.Equal(t, 4, c.store.tree.Stats().Blocks)
}

// Every entry was a full copy of its prefix.
func TestRegressionPrefixCopiesWholePrefixes(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	for i := range 100 {
		c.put(t, append(prompt(0, 1600), prompt(5000+100*i, 16)...)...)
	}
	require.Equal(t, 100, c.Len())
	require.Equal(t, 200, c.store.tree.Stats().Blocks)
	reads := 0
	tokens := append(prompt(0, 1600), 1, 2, 3)
	from := newHostStub(tokens)
	from.rows = func(layer, first int) ([]float32, []float32, error) {
		require.GreaterOrEqual(t, first, 1600, "known tokens are not even read")
		reads++
		return from.Dense.Rows(layer, first)
	}
	_, err := c.Store(tokens, from)
	require.NoError(t, err)
	require.Equal(t, hostShape.layers, reads)
}

// The key had neither model nor adapter: a request got what another adapter had
// computed. Here adapters are scopes, and another shape is refused.
func TestRegressionPrefixMixesModels(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	lora := c.scoped(prefix.Scope{Adapter: &prefix.Adapter{ID: "lora", Version: "1"}})
	c.put(t, prompt(0, 20)...)
	_, _, ok := lora.Lookup(prompt(0, 20))
	require.False(t, ok)
	for _, shape := range []kvShape{{2, 4}, {3, 3}} {
		for _, view := range []prefixes{c, lora} {
			m := hostCache(0, shape, prompt(0, 20))
			_, err := view.Store(prompt(0, 20), m)
			require.ErrorIs(t, err, backend.ErrArgument{})
			s, err := NewCachedKvState(m.keys, m.values, 20)
			require.NoError(t, err)
			_, err = view.StoreSnapshot(prompt(0, 20), s)
			require.ErrorIs(t, err, backend.ErrArgument{})
		}
	}
	require.Equal(t, 20, c.find(t, prompt(0, 20)...))
	for _, shape := range []kvShape{{0, 3}, {2, 0}, {-1, 3}, {2, -1}} {
		_, err := c.Store(prompt(0, 20), &hostShaped{shape.layers, shape.kvDim})
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	_, err := c.Store(prompt(0, 20), nil)
	require.ErrorIs(t, err, backend.ErrArgument{})
}

// A paged cache of more than one block stored an entry without content.
func TestRegressionPrefixFromPagedCache(t *testing.T) {
	for _, n := range []int{15, 16, 17, 33, 100} {
		c := newHostPrefix(t, PrefixCacheConfig{})
		p := newPagedLayers(t, hostShape, 200, 16)
		tokens := prompt(0, n)
		p.fill(t, tokens)
		stored, err := c.Store(tokens, p)
		require.NoError(t, err)
		require.True(t, stored)
		require.Equal(t, n, c.find(t, tokens...))
	}
}

// In the middle of a step, a layer whose token was not there yet showed a stale row.
func TestRegressionPrefixRowOfAnUnfinishedStep(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	p := newPagedLayers(t, hostShape, 64, 16)
	p.fill(t, prompt(0, 20))
	require.NoError(t, p.keys[0].Append(make([]float32, 3)))
	require.NoError(t, p.values[0].Append(make([]float32, 3)))
	require.Equal(t, 20, p.Len())
	_, err := c.Store(prompt(0, 21), p)
	require.ErrorIs(t, err, backend.ErrArgument{})
	_, err = c.Store(prompt(0, 20), p)
	require.NoError(t, err)
	require.Equal(t, 20, c.find(t, prompt(0, 21)...))
}

// Only keys and values were counted. What the runtime has is not far from what is
// counted here, for small rows and for large ones.
func TestRegressionPrefixMemoryCountsFloatsOnly(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector's memory is not ours")
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, tc := range []struct {
		name     string
		shape    kvShape
		prompts  int
		length   int
		salted   bool // each prompt has a scope of its own
		low, top float64
	}{
		{"one block each", kvShape{1, 1}, 4000, 16, false, 0.6, 1.3},
		{"one tenant each", kvShape{1, 1}, 4000, 16, true, 0.6, 1.3},
		{"long", kvShape{1, 8}, 50, 1000, false, 0.6, 1.3},
		{"large rows", kvShape{4, 128}, 40, 100, false, 0.9, 1.1},
	} {
		c := newHostPrefix(t, PrefixCacheConfig{MaxEntries: tc.prompts, MaxBytes: 1 << 30})
		before := heap()
		for i := range tc.prompts {
			tokens, view := prompt(10_000*i, tc.length), c
			if tc.salted {
				view = c.scoped(prefix.Scope{Salt: []byte{byte(i), byte(i >> 8)}})
			}
			_, err := view.Store(tokens, hostCache(0, tc.shape, tokens))
			require.NoError(t, err)
		}
		ratio := float64(c.MemoryUsage()) / float64(heap()-before)
		t.Logf("%s: %d bytes counted, %.2f of what the heap grew by", tc.name, c.MemoryUsage(), ratio)
		require.Greater(t, ratio, tc.low, tc.name)
		require.Less(t, ratio, tc.top, tc.name)
		require.Equal(t, tc.prompts, c.Len())
	}
}
