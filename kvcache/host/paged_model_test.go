package host

import (
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pagedModel is a cache as a plain list of numbers (dim 1), and its blocks as counters of
// owners, which predict exactly when the store runs dry.
type pagedModel struct {
	tokens []float64
	blocks []*int
}

type pagedMachine struct {
	t         *rapid.T
	store     *BlockStore[float64]
	limit     int
	caches    []*PagedKvCache[float64]
	models    []*pagedModel
	next      float64
	blockSize int
}

func (m *pagedMachine) held() int {
	seen := map[*int]bool{}
	for _, c := range m.models {
		for _, b := range c.blocks {
			seen[b] = true
		}
	}
	return len(seen)
}

func (m *pagedMachine) append(i, n int) {
	c, want := m.caches[i], m.models[i]
	data := make([]float64, n)
	for k := range data {
		m.next++
		data[k] = m.next
	}
	used := len(want.tokens) % m.blockSize
	private := used > 0 && *want.blocks[len(want.blocks)-1] > 1
	need := (len(want.tokens)+n+m.blockSize-1)/m.blockSize - len(want.blocks)
	if private && n > 0 {
		need++
	}
	var err error
	if n == 1 {
		err = c.Append(data)
	} else {
		err = c.AppendTensor(Tensor[float64]{Data: data, Rows: n, Cols: 1})
	}
	room := m.store.Blocks() - m.held()
	switch {
	case len(want.tokens)+n > m.limit:
		require.Equal(m.t, backend.ErrCapacity{Package: "host", Have: len(want.tokens) + n, Max: m.limit}, err)
		return
	case need > room:
		require.ErrorIs(m.t, err, block.ErrOutOfBlocks{Need: need, Free: room})
		return
	}
	require.NoError(m.t, err)
	if private && n > 0 {
		m.drop(want, len(want.blocks)-1)
	}
	want.tokens = append(want.tokens, data...)
	for len(want.blocks)*m.blockSize < len(want.tokens) {
		one := 1
		want.blocks = append(want.blocks, &one)
	}
}

func (m *pagedMachine) drop(c *pagedModel, from int) {
	for _, b := range c.blocks[from:] {
		*b--
	}
	c.blocks = c.blocks[:from]
}

func (m *pagedMachine) truncate(i, n int) {
	c := m.models[i]
	require.NoError(m.t, m.caches[i].Truncate(n))
	m.drop(c, (n+m.blockSize-1)/m.blockSize)
	c.tokens = c.tokens[:n]
}

func (m *pagedMachine) clone(i int) {
	c, err := m.caches[i].Clone()
	require.NoError(m.t, err)
	from := m.models[i]
	for _, b := range from.blocks {
		*b++
	}
	m.caches = append(m.caches, c)
	m.models = append(m.models, &pagedModel{slices.Clone(from.tokens), slices.Clone(from.blocks)})
}

func (m *pagedMachine) release(i int) {
	m.caches[i].Release()
	m.drop(m.models[i], 0)
	m.caches, m.models = slices.Delete(m.caches, i, i+1), slices.Delete(m.models, i, i+1)
}

func (m *pagedMachine) agree() {
	require.NoError(m.t, m.store.Check())
	require.Equal(m.t, m.held(), m.store.BlocksInUse())
	for i, c := range m.caches {
		want := m.models[i]
		require.Equal(m.t, len(want.tokens), c.Len())
		require.Equal(m.t, len(want.blocks), c.BlocksInUse())
		require.True(m.t, slices.Equal(want.tokens, c.AsTensor().Data), "cache %d", i)
		at := 0
		for first, rows := range c.Blocks() {
			require.Equal(m.t, at, first)
			require.True(m.t, slices.Equal(want.tokens[at:at+len(rows)], rows))
			at += len(rows)
		}
		require.Equal(m.t, len(want.tokens), at)
		if at > 0 {
			copied, err := c.GetToken(at / 2)
			require.NoError(m.t, err)
			view, err := c.Token(at / 2)
			require.NoError(m.t, err)
			require.Equal(m.t, want.tokens[at/2:at/2+1], copied)
			require.Equal(m.t, copied, view)
		}
	}
}

// Thousands of random histories of several caches on one store, cloned at will,
// look like plain lists.
func TestPagedHistoriesMatchLists(t *testing.T) {
	history := func(t *rapid.T) {
		m := &pagedMachine{t: t, blockSize: 1 << rapid.IntRange(0, 3).Draw(t, "block size"), limit: rapid.IntRange(0, 40).Draw(t, "limit")}
		var err error
		m.store, err = NewBlockStore[float64](rapid.IntRange(1, 12).Draw(t, "blocks"), m.blockSize, 1)
		require.NoError(t, err)
		for range 2 {
			c, err := m.store.NewCache(m.limit)
			require.NoError(t, err)
			m.caches, m.models = append(m.caches, c), append(m.models, &pagedModel{})
		}
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, len(m.caches)-1).Draw(t, "cache")
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 3:
				m.append(i, 1)
			case op < 6:
				m.append(i, rapid.IntRange(0, 20).Draw(t, "tokens"))
			case op < 7:
				m.truncate(i, rapid.IntRange(0, m.caches[i].Len()).Draw(t, "length"))
			case op < 8 && len(m.caches) < 6:
				m.clone(i)
			case op < 9 && len(m.caches) > 1:
				m.release(i)
			case op == 9:
				m.caches[i].Clear()
				m.drop(m.models[i], 0)
				m.models[i].tokens = nil
			}
			m.agree()
		}
		for len(m.caches) > 0 {
			m.release(0)
		}
		require.Zero(t, m.store.BlocksInUse())
		require.NoError(t, m.store.Check())
	}
	for range 3 {
		rapid.Check(t, history)
	}
}

// Vectors of several float32 elements, appended one by one and many at a time,
// truncated and cloned, read as rows of a plain matrix.
func TestPagedFloat32Rows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dim := rapid.IntRange(1, 9).Draw(t, "dim")
		c, err := NewPagedKvCache[float32](50, dim, PagedBlockSize(1<<rapid.IntRange(0, 4).Draw(t, "block size")))
		require.NoError(t, err)
		var want []float32
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			n := rapid.IntRange(0, 50-c.Len()).Draw(t, "tokens")
			data := rapid.SliceOfN(rapid.Float32(), n*dim, n*dim).Draw(t, "data")
			require.NoError(t, c.AppendTensor(Tensor[float32]{Data: data, Rows: n, Cols: dim}))
			want = append(want, data...)
			keep := rapid.IntRange(0, c.Len()).Draw(t, "keep")
			clone, err := c.Clone()
			require.NoError(t, err)
			require.NoError(t, clone.Truncate(keep))
			require.Equal(t, Tensor[float32]{Data: append([]float32{}, want...), Rows: len(want) / dim, Cols: dim}, c.AsTensor())
			c.Release()
			c, want = clone, want[:keep*dim:keep*dim]
		}
		c.Release()
		require.NoError(t, c.store.Check())
		require.Zero(t, c.store.BlocksInUse())
	})
}

// The zero value is a released cache, not a trap.
func TestPagedZeroValue(t *testing.T) {
	var c PagedKvCache[float64]
	require.ErrorIs(t, c.Append(nil), backend.ErrClosed)
	require.Error(t, c.Append([]float64{1}))
	require.Error(t, c.AppendTensor(Tensor[float64]{Data: []float64{1}, Rows: 1, Cols: 1}))
	_, err := c.Clone()
	require.ErrorIs(t, err, backend.ErrClosed)
	_, err = c.Token(0)
	require.ErrorIs(t, err, ErrIndex{Index: 0, Len: 0})
	require.NoError(t, c.Truncate(0))
	require.Equal(t, Tensor[float64]{Data: []float64{}}, c.AsTensor())
	require.Equal(t, "PagedKvCache(len=0, max=0, dim=0, blocks=0/0)", c.String())
	c.Clear()
	c.Release()
}
