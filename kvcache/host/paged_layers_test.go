package host

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// hostLayers is PagedLayers over one store, which is checked at the end.
type hostLayers struct {
	*PagedLayers[float32]
	store *BlockStore[float32]
}

func newPagedLayers(t testing.TB, shape kvShape, maxTokens, blockSize int) hostLayers {
	t.Helper()
	blocks := 4 * shape.layers * blocksFor(maxTokens, blockSize)
	return newPagedLayersOf(t, shape, maxTokens, blocks, blockSize)
}

func newPagedLayersOf(t testing.TB, shape kvShape, maxTokens, blocks, blockSize int) hostLayers {
	t.Helper()
	store, err := NewBlockStore[float32](blocks, blockSize, shape.kvDim)
	require.NoError(t, err)
	caches := make([]*PagedKvCache[float32], 2*shape.layers)
	for i := range caches {
		caches[i], err = store.NewCache(maxTokens)
		require.NoError(t, err)
	}
	p, err := NewPagedLayers(caches[:shape.layers], caches[shape.layers:])
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, c := range caches {
			c.Release()
		}
		require.Zero(t, store.BlocksInUse())
		require.NoError(t, store.Check())
	})
	return hostLayers{p, store}
}

// fill appends a prompt.
func (h hostLayers) fill(t testing.TB, tokens []uint32) {
	t.Helper()
	m := hostCache(0, kvShape{h.NumLayers(), h.KVDim()}, tokens)
	for layer := range h.keys {
		require.NoError(t, h.keys[layer].AppendTensor(Tensor[float32]{Data: m.keys[layer], Rows: len(tokens), Cols: h.KVDim()}))
		require.NoError(t, h.values[layer].AppendTensor(Tensor[float32]{Data: m.values[layer], Rows: len(tokens), Cols: h.KVDim()}))
	}
}

// has demands that the cache holds exactly a prompt.
func (h hostLayers) has(t testing.TB, tokens []uint32) {
	t.Helper()
	require.Equal(t, len(tokens), h.Len())
	m := hostCache(0, kvShape{h.NumLayers(), h.KVDim()}, tokens)
	for layer := range h.keys {
		require.True(t, slices.Equal(m.keys[layer], h.keys[layer].AsTensor().Data))
		require.True(t, slices.Equal(m.values[layer], h.values[layer].AsTensor().Data))
	}
}

// What is stored from a paged cache is restored into another, of other blocks, bit by
// bit, and can go on from there.
func TestPagedLayersRoundTrip(t *testing.T) {
	for _, bs := range []int{1, 4, 16, 64} {
		c := newHostPrefix(t, PrefixCacheConfig{})
		from := newPagedLayers(t, hostShape, 100, bs)
		from.fill(t, prompt(0, 50))
		_, err := c.Store(prompt(0, 50), from)
		require.NoError(t, err)
		to := newPagedLayers(t, hostShape, 100, 8)
		for _, n := range []int{50, 37, 4} {
			matched, s, ok := c.Lookup(prompt(0, n))
			require.True(t, ok)
			require.Equal(t, n, matched)
			require.NoError(t, c.Restore(s, to))
			to.has(t, prompt(0, n))
			require.NoError(t, to.keys[0].Append(make([]float32, 3)))
		}
	}
}

// A restore that does not fit leaves every cache as it was.
func TestPagedLayersFailedLoad(t *testing.T) {
	m := hostCache(0, hostShape, prompt(0, 40))
	s, err := NewCachedKvState(m.keys, m.values, 40)
	require.NoError(t, err)

	small := newPagedLayers(t, hostShape, 39, 4)
	small.fill(t, prompt(700, 9))
	require.ErrorIs(t, small.Load(s), backend.ErrCapacity{})
	small.has(t, prompt(700, 9))

	dry := newPagedLayersOf(t, hostShape, 100, 4*3+25, 4) // 12 blocks are held, 40 needed
	dry.fill(t, prompt(700, 9))
	require.ErrorIs(t, dry.Load(s), block.ErrOutOfBlocks{})
	dry.has(t, prompt(700, 9))
	require.Equal(t, 12, dry.store.BlocksInUse())
	dry.fill(t, nil)
	require.NoError(t, dry.keys[1].Append(make([]float32, 3)), "and they can be written")

	empty := newPagedLayersOf(t, hostShape, 100, 39, 4)
	require.ErrorIs(t, empty.Load(s), block.ErrOutOfBlocks{})
	empty.has(t, nil)
	require.Zero(t, empty.store.BlocksInUse())

	require.ErrorIs(t, newPagedLayers(t, kvShape{2, 4}, 50, 4).Load(s), backend.ErrArgument{})
	require.ErrorIs(t, small.Load(nil), backend.ErrArgument{})
	released := newPagedLayers(t, hostShape, 50, 4)
	released.values[1].Release()
	require.ErrorIs(t, released.Load(s), backend.ErrClosed)
	require.Zero(t, released.Len())
}

func TestPagedLayersShape(t *testing.T) {
	a, b := newPagedLayers(t, hostShape, 10, 4), newPagedLayers(t, kvShape{2, 4}, 10, 4)
	for _, bad := range [][2][]*PagedKvCache[float32]{
		{}, {a.keys, nil}, {a.keys, a.values[:1]}, {a.keys, b.keys}, {a.keys, {a.values[0], nil}},
		{a.keys, a.keys}, {a.keys[:1], {new(PagedKvCache[float32])}},
	} {
		p, err := NewPagedLayers(bad[0], bad[1])
		require.ErrorIs(t, err, backend.ErrArgument{})
		require.Nil(t, p)
	}
	a.fill(t, prompt(0, 6))
	for _, layer := range []int{-1, 2} {
		_, _, err := a.Rows(layer, 0)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	for _, first := range []int{-1, 6} {
		_, _, err := a.Rows(0, first)
		require.Equal(t, ErrIndex{Index: first, Len: 6}, err)
	}
	keys, values, err := a.Rows(1, 3)
	require.NoError(t, err)
	require.Equal(t, []int{3, 3}, []int{len(keys), len(values)}, "one token is left of the block")
}
