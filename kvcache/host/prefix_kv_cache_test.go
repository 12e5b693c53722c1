package host

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

var hostShape = kvShape{layers: 2, kvDim: 3}

// hostCache is a runner's cache after a prompt. Each row tells from which tokens, in
// which model, it was computed.
func hostCache(model uint64, shape kvShape, tokens []uint32) *Dense[float32] {
	m := &Dense[float32]{make([][]float32, shape.layers), make([][]float32, shape.layers), shape.kvDim, len(tokens)}
	h := model + 1469598103934665603
	for _, token := range tokens {
		h = (h ^ uint64(token)) * 1099511628211
		for layer := range shape.layers {
			for range shape.kvDim {
				h = h*6364136223846793005 + 1442695040888963407
				m.keys[layer] = append(m.keys[layer], float32(h>>40))
				m.values[layer] = append(m.values[layer], -float32(h>>41))
			}
		}
	}
	return m
}

// prefixes is a cache of float32 that tests look into.
type prefixes struct{ *PrefixKvCache[float32] }

func (c prefixes) scoped(s prefix.Scope) prefixes { return prefixes{c.Scoped(s)} }

func newHostPrefix(t testing.TB, cfg PrefixCacheConfig) prefixes {
	t.Helper()
	c, err := NewPrefixKvCache[float32](cfg)
	require.NoError(t, err)
	p := prefixes{c}
	t.Cleanup(func() { p.verify(t) })
	return p
}

// verify counts again what the cache counts, and compares the tree with the content.
func (c prefixes) verify(t require.TestingT) {
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NoError(t, s.tree.Check())
	require.Zero(t, s.alloc.Held())
	blocks, ends, bytes := 0, 0, int64(0)
	children := make([]uint32, len(s.slots))
	for _, slot := range s.slots {
		if slot.data == nil {
			require.Equal(t, prefixSlot[float32]{}, slot)
			continue
		}
		blocks++
		bytes += 4 * int64(len(slot.data))
		if slot.children == 0 {
			ends++
		}
		if slot.parent != noBlock {
			children[slot.parent]++
		}
	}
	for id, slot := range s.slots {
		require.Equal(t, children[id], slot.children)
	}
	require.Equal(t, blocks, s.tree.Stats().Blocks)
	require.Equal(t, []int64{int64(ends), bytes}, []int64{int64(s.entries), s.bytes})
	require.LessOrEqual(t, s.entries, s.cfg.MaxEntries)
	require.LessOrEqual(t, s.usage(), s.cfg.MaxBytes)
}

// put stores a prompt, which must work.
func (c prefixes) put(t require.TestingT, tokens ...uint32) {
	stored, err := c.Store(tokens, hostCache(0, hostShape, tokens))
	require.NoError(t, err)
	require.True(t, stored)
}

// find looks a prompt up, and demands that what is found is right.
func (c prefixes) find(t require.TestingT, tokens ...uint32) int {
	n, s, ok := c.Lookup(tokens)
	require.Equal(t, s != nil, ok)
	if !ok {
		require.Zero(t, n)
		return 0
	}
	require.Equal(t, n, s.Len())
	requireState(t, 0, s, tokens[:n])
	return n
}

// length is find without a look at the content.
func (c prefixes) length(tokens []uint32) int {
	n, _, _ := c.Lookup(tokens)
	return n
}

func requireState(t require.TestingT, model uint64, s *CachedKvState[float32], tokens []uint32) {
	require.Equal(t, len(tokens), s.Len())
	want := hostCache(model, s.shape, tokens)
	for layer := range s.NumLayers() {
		keys, err := s.Keys(layer)
		require.NoError(t, err)
		values, err := s.Values(layer)
		require.NoError(t, err)
		require.True(t, slices.Equal(want.keys[layer], keys), "keys of layer %d", layer)
		require.True(t, slices.Equal(want.values[layer], values), "values of layer %d", layer)
	}
}

// prompt is n tokens that count up from first.
func prompt(first, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(first + i)
	}
	return tokens
}

func TestPrefixKvCacheExact(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	c.put(t, 1, 2, 3, 4, 5)
	require.Equal(t, 5, c.find(t, 1, 2, 3, 4, 5))
	require.Equal(t, 5, c.find(t, 1, 2, 3, 4, 5, 6, 7), "a longer query")
	require.Zero(t, c.find(t, 9, 2, 3, 4, 5))
	require.Equal(t, []uint64{2, 1}, []uint64{c.Hits(), c.Misses()})
}

func TestPrefixKvCacheEmpty(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	require.True(t, c.IsEmpty())
	require.Zero(t, c.MemoryUsage())
	require.Zero(t, c.find(t, 1, 2, 3, 4))
	c.put(t, 1, 2, 3, 4)
	require.Zero(t, c.find(t), "an empty query")
	require.Equal(t, uint64(2), c.Misses())
	require.False(t, c.IsEmpty())
}

// Prompts of many blocks that branch inside of a block and at its border, in both
// orders.
func TestPrefixKvCacheSplit(t *testing.T) {
	long := prompt(0, 100)
	for _, bs := range []int{1, 3, 16, 64, 1000} {
		for _, cut := range []int{4, 15, 16, 17, 48, 63, 64, 65, 99} {
			c := newHostPrefix(t, PrefixCacheConfig{BlockSize: bs})
			other := append(slices.Clone(long[:cut]), prompt(500, 40)...)
			c.put(t, long...)
			c.put(t, other...)
			require.Equal(t, 2, c.Len())
			require.Equal(t, 100, c.find(t, long...))
			require.Equal(t, cut+40, c.find(t, other...))
			require.Equal(t, cut, c.find(t, append(slices.Clone(long[:cut]), 900)...))
			for n := range 101 {
				want := n
				if n < DefaultMinPrefixLen {
					want = 0
				}
				require.Equal(t, want, c.find(t, long[:n]...))
			}
		}
	}
}

// What counts as an entry: see PrefixKvCache.
func TestPrefixKvCacheEntries(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{BlockSize: 4})
	for i, step := range []struct {
		tokens []uint32
		len    int
	}{
		{prompt(0, 10), 1},
		{prompt(0, 10), 1},                         // again
		{prompt(0, 4), 1},                          // its beginning, one block
		{prompt(0, 6), 1},                          // inside of a block
		{prompt(0, 11), 1},                         // longer: takes the place of the partial block
		{prompt(0, 13), 1},                         // and on
		{append(prompt(0, 8), 9, 9), 2},            // branches
		{append(prompt(0, 13), 77, 78, 79, 80), 2}, // the first goes on
		{append(prompt(0, 8), 9, 9, 5, 5, 5), 2},   // the second, too
		{append(prompt(0, 8), 9, 9, 6), 3},         // inside of its block
		{append(append(prompt(0, 8), 9, 9), 5, 5, 5, 1), 3},
		{prompt(50, 4), 4},
	} {
		c.put(t, step.tokens...)
		require.Equal(t, step.len, c.Len(), "step %d", i)
		require.Equal(t, len(step.tokens), c.find(t, step.tokens...))
		c.verify(t)
	}
}

// The least recently used entry goes; being found is a use, being stored again, too.
func TestPrefixKvCacheEvictsByEntries(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MaxEntries: 3})
	for i := range 3 {
		c.put(t, prompt(100*i, 20)...)
	}
	require.Equal(t, 20, c.find(t, prompt(0, 20)...))
	c.put(t, prompt(100, 20)...)
	c.put(t, prompt(900, 20)...)
	require.Equal(t, 3, c.Len())
	require.Zero(t, c.find(t, prompt(200, 20)...))
	for _, first := range []int{0, 100, 900} {
		require.Equal(t, 20, c.find(t, prompt(first, 20)...))
	}
}

func TestPrefixKvCacheEvictsByBytes(t *testing.T) {
	shape := kvShape{1, 256} // 32 KiB a block: the books are small beside it
	c := newHostPrefix(t, PrefixCacheConfig{MaxBytes: 1 << 20})
	var recent [][]uint32
	for i := range 100 {
		tokens := append(prompt(0, 16), prompt(1000*(i+1), 20+i%40)...)
		stored, err := c.Store(tokens, hostCache(0, shape, tokens))
		require.NoError(t, err)
		require.True(t, stored)
		require.LessOrEqual(t, c.MemoryUsage(), int64(1<<20))
		require.Equal(t, len(tokens), c.length(tokens), "what was just stored stays")
		if stored := append(recent, tokens); len(stored) > 5 {
			recent = stored[1:]
		} else {
			recent = stored
		}
		for _, tokens := range recent {
			require.Equal(t, len(tokens), c.length(tokens), "and so do those before")
		}
	}
	require.Greater(t, c.Len(), 5)
	require.Greater(t, c.MemoryUsage(), int64(3<<18), "and no more goes than must")
	require.Equal(t, 16, c.find(t, prompt(0, 16)...), "what all begin with stays")
}

func TestPrefixKvCacheClear(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	c.put(t, prompt(0, 40)...)
	_, s, _ := c.Lookup(prompt(0, 40))
	c.find(t, 9)
	c.Clear()
	require.Equal(t, []uint64{0, 0, 0}, []uint64{c.Hits(), c.Misses(), uint64(c.MemoryUsage())})
	require.True(t, c.IsEmpty())
	require.Zero(t, c.find(t, prompt(0, 40)...))
	requireState(t, 0, s, prompt(0, 40))
	other := hostCache(0, kvShape{1, 7}, prompt(0, 5))
	_, err := c.Store(prompt(0, 5), other)
	require.NoError(t, err, "another shape is welcome now")
}

func TestPrefixKvCacheMemory(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	books, top := int64(slotBytes+c.store.blockBytes()), int64(prefix.NodeBytes+prefix.RootBytes)
	c.put(t, 1, 2, 3, 4)
	row := int64(2 * 2 * 3 * 4) // layers, keys and values, elements, bytes
	require.Equal(t, 4*row+books+top, c.MemoryUsage())
	c.put(t, 1, 2, 3, 4)
	c.put(t, 1, 2, 3, 4, 5)
	require.Equal(t, 5*row+2*books-int64(c.store.blockBytes())+top, c.MemoryUsage(), "one number is free again")
	before := c.MemoryUsage()
	c.put(t, prompt(1, 64)...)
	mid := c.MemoryUsage()
	c.put(t, append(prompt(1, 63), 7)...)
	require.Less(t, c.MemoryUsage()-mid, (mid-before)/2, "three of four blocks are shared")
}

func TestPrefixKvCacheMinLength(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MinPrefixLen: 6, BlockSize: 2})
	for n := range 6 {
		stored, err := c.Store(prompt(0, n), hostCache(0, hostShape, prompt(0, 9)))
		require.NoError(t, err)
		require.False(t, stored)
		if n == 0 {
			continue
		}
		m := hostCache(0, hostShape, prompt(0, n))
		s, err := NewCachedKvState(m.keys, m.values, n)
		require.NoError(t, err)
		stored, err = c.StoreSnapshot(prompt(0, n), s)
		require.NoError(t, err)
		require.False(t, stored)
	}
	require.True(t, c.IsEmpty())
	c.put(t, prompt(0, 9)...)
	require.Zero(t, c.find(t, prompt(0, 5)...))
	require.Equal(t, 6, c.find(t, append(prompt(0, 6), 99)...))
}

func TestPrefixKvCacheScopes(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{MaxEntries: 2})
	scopes := []prefix.Scope{
		{}, {Salt: []byte("a")}, {Salt: []byte{}}, {Adapter: &prefix.Adapter{ID: "a"}}, {Adapter: &prefix.Adapter{ID: "a", Version: "2"}},
	}
	for i, scope := range scopes {
		view := c.scoped(scope)
		_, _, ok := view.Lookup(prompt(0, 20))
		require.False(t, ok, "scope %d", i)
		_, err := view.Store(prompt(0, 20), hostCache(uint64(i), hostShape, prompt(0, 20)))
		require.NoError(t, err)
		_, s, ok := c.Scoped(scope).Lookup(prompt(0, 20))
		require.True(t, ok)
		requireState(t, uint64(i), s, prompt(0, 20))
	}
	require.Equal(t, 2, c.Len(), "limits are those of all scopes together")
	require.Equal(t, []uint64{5, 5}, []uint64{c.Hits(), c.Misses()})
}

func TestPrefixKvCacheConfig(t *testing.T) {
	c := newHostPrefix(t, PrefixCacheConfig{})
	require.Equal(t, PrefixCacheConfig{MaxEntries: 256, MaxBytes: 512 << 20, MinPrefixLen: 4, BlockSize: 16}, c.store.cfg)
	for _, bad := range []PrefixCacheConfig{
		{MaxEntries: -1}, {MaxBytes: -1}, {MinPrefixLen: math.MinInt}, {BlockSize: -16}, {BlockSize: 1<<24 + 1},
	} {
		c, err := NewPrefixKvCache[float32](bad)
		require.ErrorIs(t, err, backend.ErrConfig{})
		require.Nil(t, c)
	}
	largest := newHostPrefix(t, PrefixCacheConfig{MaxEntries: math.MaxInt, MaxBytes: math.MaxInt64, BlockSize: 1 << 24})
	largest.put(t, prompt(0, 100)...)
	require.Equal(t, 100, largest.find(t, prompt(0, 100)...))
}

// A state goes into another cache without a copy, also back into the one that
// evicted it; with another block size, or an end inside of a block, what must be is
// copied.
func TestPrefixKvCacheSnapshots(t *testing.T) {
	a := newHostPrefix(t, PrefixCacheConfig{MaxEntries: 1})
	a.put(t, prompt(0, 40)...)
	_, s, _ := a.Lookup(prompt(0, 40))
	a.put(t, prompt(900, 40)...)
	require.Zero(t, a.find(t, prompt(0, 40)...))
	for _, bs := range []int{16, 5, 64} {
		b := newHostPrefix(t, PrefixCacheConfig{BlockSize: bs})
		for _, into := range []prefixes{a, b} {
			stored, err := into.StoreSnapshot(prompt(0, 40), s)
			require.NoError(t, err)
			require.True(t, stored)
			require.Equal(t, 40, into.find(t, prompt(0, 40)...))
			_, again, _ := into.Lookup(prompt(0, 40))
			if into.store.cfg.BlockSize == 16 {
				require.Same(t, &s.blocks[2][0], &again.blocks[2][0])
			}
		}
	}
	_, part, _ := a.Lookup(append(prompt(0, 23), 5))
	require.Len(t, part.blocks[1], len(part.blocks[0]), "a full block, of which 7 tokens count")
	b := newHostPrefix(t, PrefixCacheConfig{})
	_, err := b.StoreSnapshot(prompt(0, 23), part)
	require.NoError(t, err)
	require.Equal(t, 23, b.find(t, prompt(0, 40)...))
	require.Same(t, &part.blocks[0][0], &b.store.slots[0].data[0])
	require.Len(t, b.store.slots[1].data, 7*2*2*3)

	_, err = b.StoreSnapshot(prompt(0, 23), nil)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.ErrorIs(t, b.Restore(nil, nil), backend.ErrArgument{})
}

// Tables that many small blocks have made long do not push a large prompt out.
func TestPrefixKvCacheTablesShrink(t *testing.T) {
	shape := kvShape{1, 4}
	c := newHostPrefix(t, PrefixCacheConfig{MaxBytes: 16<<10 + int64(prefix.RootBytes), BlockSize: 64})
	store := func(tokens []uint32) error {
		_, err := c.Store(tokens, hostCache(0, shape, tokens))
		return err
	}
	for i := range 100 {
		require.NoError(t, store(prompt(100*i, 4)))
	}
	small := len(c.store.slots)
	n := 64
	for store(prompt(90_000, n)) == nil {
		c.verify(t)
		require.Equal(t, n, c.length(prompt(90_000, n)))
		n += 64
	}
	require.Less(t, len(c.store.slots), small)
	require.Equal(t, 1, c.Len())
}
