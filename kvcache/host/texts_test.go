package host

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors of this package say so, and which call they are of and what is wrong with it.
func TestTexts(t *testing.T) {
	store, err := NewBlockStore[float32](1, 4, 1)
	require.NoError(t, err)
	cache, err := store.NewCache(9)
	require.NoError(t, err)
	full, err := NewPagedKvCache[float32](0, 1)
	require.NoError(t, err)
	rows := func(n int) Tensor[float32] { return Tensor[float32]{Data: make([]float32, n), Rows: n, Cols: 1} }
	prefixes, err := NewPrefixKvCache[float32](PrefixCacheConfig{MaxBytes: 1000})
	require.NoError(t, err)
	for _, c := range []struct {
		want string
		ask  func() error
	}{
		{"host: append: block: out of blocks: need 2, 1 available", func() error { return cache.AppendTensor(rows(5)) }},
		{"host: append: token: 2 elements, need 1", func() error { return cache.Append([]float32{1, 2}) }},
		{"host: 3 tokens exceed the capacity of 0", func() error { return full.AppendTensor(rows(3)) }},
		{"host: token 4: the cache has 0 tokens", func() error { _, err := cache.Token(4); return err }},
		{"host: paged cache: closed", func() error { return new(PagedKvCache[float32]).Append(nil) }},
		{"host: check: a store that was not made by NewBlockStore: closed", new(BlockStore[float32]).Check},
		{"host: block store: block size: have 3, need a power of two", func() error { _, err := NewBlockStore[float32](1, 3, 1); return err }},
		{"host: PrefixCacheConfig.BlockSize=-1: accepts 0 for its default", func() error {
			_, err := NewPrefixKvCache[float32](PrefixCacheConfig{BlockSize: -1})
			return err
		}},
		{"host: an entry of ", func() error {
			_, err := prefixes.Store(prompt(0, 100), hostCache(0, hostShape, prompt(0, 100)))
			return err
		}},
		{"host: store: the cache is nil", func() error { _, err := prefixes.Store(nil, nil); return err }},
	} {
		err := c.ask()
		require.Error(t, err, c.want)
		require.Contains(t, err.Error(), c.want)
		require.NotContains(t, err.Error(), "kvcache")
	}
}
