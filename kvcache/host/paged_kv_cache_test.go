package host

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func newPaged(t testing.TB, maxTokens, dim int, opts ...PagedOption) *PagedKvCache[float64] {
	t.Helper()
	c, err := NewPagedKvCache[float64](maxTokens, dim, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { closePaged(t, c) })
	return c
}

// closePaged demands that what a test took from the store is back.
func closePaged(t testing.TB, caches ...*PagedKvCache[float64]) {
	for _, c := range caches {
		c.Release()
	}
	require.Zero(t, caches[0].store.BlocksInUse())
	require.NoError(t, caches[0].store.Check())
}

func newStore(t testing.TB, blocks, blockSize, dim int) *BlockStore[float64] {
	t.Helper()
	s, err := NewBlockStore[float64](blocks, blockSize, dim)
	require.NoError(t, err)
	return s
}

// ramp is tokens [n, dim] whose elements count on from first.
func ramp(first float64, n, dim int) Tensor[float64] {
	t := Tensor[float64]{Rows: n, Cols: dim, Data: make([]float64, n*dim)}
	for i := range t.Data {
		t.Data[i] = first + float64(i)
	}
	return t
}

func TestPagedNew(t *testing.T) {
	c := newPaged(t, 100, 8)
	require.Equal(t, 0, c.Len())
	require.True(t, c.IsEmpty())
	require.Equal(t, 100, c.MaxTokens())
	require.Equal(t, 8, c.Dim())
	require.Equal(t, 7, c.NumBlocks())
	require.Equal(t, 0, c.BlocksInUse())
	require.Equal(t, "PagedKvCache(len=0, max=100, dim=8, blocks=0/7)", c.String())
	require.Equal(t, 7, c.store.Blocks())
	require.Equal(t, 16, c.store.BlockSize())
	require.Equal(t, 8, c.store.Dim())
}

func TestPagedAppend(t *testing.T) {
	c := newPaged(t, 32, 4)
	require.NoError(t, c.Append([]float64{1, 2, 3, 4}))
	require.NoError(t, c.Append([]float64{5, 6, math.Inf(1), 8}))
	require.Equal(t, 2, c.Len())
	require.False(t, c.IsEmpty())
	require.Equal(t, 1, c.BlocksInUse())
	got, err := c.GetToken(1)
	require.NoError(t, err)
	require.Equal(t, []float64{5, 6, math.Inf(1), 8}, got)
	require.Equal(t, "PagedKvCache(len=2, max=32, dim=4, blocks=1/2)", c.String())
}

// A cache keeps a copy: what the caller does to the slices, before or after, is his.
func TestPagedCopiesInAndOut(t *testing.T) {
	c := newPaged(t, 4, 2)
	token := []float64{1, 2}
	require.NoError(t, c.Append(token))
	token[0] = 99
	got, err := c.GetToken(0)
	require.NoError(t, err)
	got[1] = 99
	c.AsTensor().Data[0] = 99
	again, err := c.GetToken(0)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2}, again)
}

func TestPagedAppendTensor(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 17, 31, 32, 33} {
		for _, before := range []int{0, 1, 15, 16} {
			c := newPaged(t, 64, 3)
			require.NoError(t, c.AppendTensor(ramp(0, before, 3)))
			require.NoError(t, c.AppendTensor(ramp(float64(before*3), n, 3)))
			require.Equal(t, ramp(0, before+n, 3), c.AsTensor(), "%d after %d", n, before)
			require.Equal(t, (before+n+15)/16, c.BlocksInUse())
		}
	}
}

func TestPagedAsTensorEmpty(t *testing.T) {
	c := newPaged(t, 8, 5)
	require.Equal(t, Tensor[float64]{Data: []float64{}, Rows: 0, Cols: 5}, c.AsTensor())
	require.NoError(t, c.AppendTensor(c.AsTensor()))
	require.Equal(t, 0, c.Len())
}

func TestPagedClearReuses(t *testing.T) {
	c := newPaged(t, 20, 2)
	require.NoError(t, c.AppendTensor(ramp(0, 20, 2)))
	c.Clear()
	require.True(t, c.IsEmpty())
	require.Zero(t, c.store.BlocksInUse())
	_, err := c.GetToken(0)
	require.Equal(t, ErrIndex{Index: 0, Len: 0}, err)
	require.NoError(t, c.AppendTensor(ramp(7, 20, 2)))
	require.Equal(t, ramp(7, 20, 2), c.AsTensor())
}

// The capacity is the number of tokens, not that of the blocks: 17 tokens are 2 blocks.
func TestPagedCapacity(t *testing.T) {
	for _, limit := range []int{0, 1, 15, 16, 17} {
		c := newPaged(t, limit, 1)
		require.Equal(t, (limit+15)/16, c.NumBlocks())
		require.NoError(t, c.AppendTensor(ramp(0, limit, 1)))
		require.Equal(t, backend.ErrCapacity{Package: "host", Have: limit + 1, Max: limit}, c.Append([]float64{0}))
		require.Equal(t, backend.ErrCapacity{Package: "host", Have: limit + 3, Max: limit}, c.AppendTensor(ramp(0, 3, 1)))
		require.Equal(t, ramp(0, limit, 1), c.AsTensor())
	}
}

func TestPagedShapes(t *testing.T) {
	c := newPaged(t, 8, 4)
	require.NoError(t, c.Append([]float64{1, 2, 3, 4}))
	for _, n := range []int{0, 3, 5, 8} {
		require.ErrorIs(t, c.Append(make([]float64, n)), backend.ErrArgument{})
	}
	for _, bad := range []Tensor[float64]{
		{},
		{Rows: 2, Cols: 3, Data: make([]float64, 6)},
		{Rows: 2, Cols: 4, Data: make([]float64, 7)},
		{Rows: -1, Cols: 4},
		{Rows: -1, Cols: -4, Data: make([]float64, 4)},
		{Rows: math.MaxInt/4 + 2, Cols: 4, Data: make([]float64, 4)},
	} {
		require.ErrorIs(t, c.AppendTensor(bad), backend.ErrArgument{}, "[%d, %d]", bad.Rows, bad.Cols)
	}
	require.Equal(t, 1, c.Len())
}

func TestPagedIndexes(t *testing.T) {
	c := newPaged(t, 40, 2)
	require.NoError(t, c.AppendTensor(ramp(0, 17, 2)))
	for _, i := range []int{0, 15, 16} {
		got, err := c.GetToken(i)
		require.NoError(t, err)
		require.Equal(t, []float64{float64(2 * i), float64(2*i + 1)}, got)
	}
	for _, i := range []int{math.MinInt, -1, 17, 32, math.MaxInt} {
		got, err := c.GetToken(i)
		require.Equal(t, ErrIndex{Index: i, Len: 17}, err)
		require.ErrorIs(t, err, ErrIndex{})
		require.Nil(t, got)
	}
	require.EqualError(t, ErrIndex{Index: 3, Len: 2}, "host: token 3: the cache has 2 tokens")
}

func TestPagedTruncate(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 20} {
		c := newPaged(t, 24, 2, PagedBlockSize(8))
		require.NoError(t, c.AppendTensor(ramp(0, 20, 2)))
		require.NoError(t, c.Truncate(n))
		require.Equal(t, (n+7)/8, c.BlocksInUse())
		require.Equal(t, c.BlocksInUse(), c.store.BlocksInUse())
		require.NoError(t, c.AppendTensor(ramp(float64(2*n), 3, 2)))
		require.Equal(t, ramp(0, n+3, 2), c.AsTensor())
		for _, bad := range []int{-1, n + 4} {
			require.Equal(t, ErrIndex{Index: bad, Len: n + 3}, c.Truncate(bad))
		}
	}
}

func TestPagedReadsWithoutCopy(t *testing.T) {
	c := newPaged(t, 40, 2, PagedBlockSize(4))
	require.NoError(t, c.AppendTensor(ramp(0, 10, 2)))
	var firsts []int
	var all []float64
	for first, rows := range c.Blocks() {
		firsts = append(firsts, first)
		all = append(all, rows...)
		view, err := c.Token(first)
		require.NoError(t, err)
		require.Same(t, &rows[0], &view[0])
		require.Len(t, view, 2)
		require.Equal(t, 2, cap(view), "an append by the reader goes elsewhere")
		require.Equal(t, len(rows), cap(rows))
	}
	require.Equal(t, []int{0, 4, 8}, firsts)
	require.Equal(t, ramp(0, 10, 2).Data, all)
	for first := range c.Blocks() {
		require.Zero(t, first)
		break
	}
}

func TestPagedRelease(t *testing.T) {
	c := newPaged(t, 8, 1)
	require.NoError(t, c.Append([]float64{1}))
	c.Release()
	c.Release()
	c.Clear()
	require.Equal(t, 0, c.Len())
	require.ErrorIs(t, c.Append([]float64{1}), backend.ErrClosed)
	require.ErrorIs(t, c.AppendTensor(ramp(0, 0, 1)), backend.ErrClosed)
	_, err := c.Clone()
	require.ErrorIs(t, err, backend.ErrClosed)
	require.NoError(t, c.Truncate(0))
}

func TestPagedFloat32(t *testing.T) {
	c, err := NewPagedKvCache[float32](4, 2, PagedBlockSize(1))
	require.NoError(t, err)
	require.NoError(t, c.Append([]float32{1, 2}))
	require.NoError(t, c.AppendTensor(Tensor[float32]{Data: []float32{3, 4, 5, 6}, Rows: 2, Cols: 2}))
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, c.AsTensor().Data)
	require.Equal(t, 3, c.BlocksInUse())
}

// Filling and clearing for a long time takes no more blocks than filling once.
func TestPagedFillAndClear(t *testing.T) {
	c := newPaged(t, 64, 4)
	tokens := ramp(0, 64, 4)
	for range 10_000 {
		require.NoError(t, c.AppendTensor(tokens))
		c.Clear()
	}
	require.Equal(t, 4, c.store.Peak())
}

func TestPagedConstructorErrors(t *testing.T) {
	for _, tc := range []struct {
		maxTokens, dim, blockSize int
		what                      string
	}{
		{-1, 4, 16, "max tokens"}, {math.MinInt, 4, 16, "max tokens"}, {4, 0, 16, "dim"}, {4, -1, 16, "dim"},
		{4, 4, 0, "block size"}, {4, 4, -16, "block size"}, {4, 4, 24, "block size"}, {4, 4, math.MaxInt, "block size"},
	} {
		c, err := NewPagedKvCache[float64](tc.maxTokens, tc.dim, PagedBlockSize(tc.blockSize))
		require.ErrorIs(t, err, backend.ErrArgument{}, "%+v", tc)
		require.ErrorContains(t, err, tc.what)
		require.Nil(t, c)
	}
	for _, blocks := range []int{math.MinInt, -1, 0, min(1<<33, math.MaxInt), math.MaxInt} {
		_, err := NewBlockStore[float32](blocks, 1, 1)
		require.ErrorIs(t, err, backend.ErrArgument{}, "%d blocks", blocks)
	}
}
