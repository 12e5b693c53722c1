package host

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/beside"
)

// benchShape is 4 layers of 8 heads of 128: 32 KiB a token in float32.
var benchShape = kvShape{4, benchDim}

// benchPrompt is a prompt of 512 tokens in a runner's tensors, 16 MiB, and other tensors of that size.
func benchPrompt(b *testing.B) (tokens []uint32, from, to *Dense[float32]) {
	tokens = prompt(0, 512)
	from = hostCache(0, benchShape, tokens)
	to = hostCache(1, benchShape, tokens)
	return tokens, from, to
}

// copied copies all rows of a prompt.
func copied(to, from *Dense[float32]) {
	for layer := range from.keys {
		copy(to.keys[layer], from.keys[layer])
		copy(to.values[layer], from.values[layer])
	}
}

// BenchmarkPrefixKvCacheStore stores a prompt of which nothing is known, beside a copy of its rows to new memory.
func BenchmarkPrefixKvCacheStore(b *testing.B) {
	tokens, from, _ := benchPrompt(b)
	c, err := NewPrefixKvCache[float32](PrefixCacheConfig{})
	require.NoError(b, err)
	var flat [][]float32
	beside.Limit(b, "of-copy", func() {
		c.Clear()
		if stored, err := c.Store(tokens, from); !stored || err != nil {
			b.Fatal(err)
		}
	}, func() {
		flat = flat[:0]
		for layer := range from.keys {
			flat = append(flat, slices.Clone(from.keys[layer]), slices.Clone(from.values[layer]))
		}
	})
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tokens)), "ns/token")
}

// BenchmarkPrefixKvCacheRestore restores it, beside a copy of its rows.
func BenchmarkPrefixKvCacheRestore(b *testing.B) {
	tokens, from, to := benchPrompt(b)
	c, err := NewPrefixKvCache[float32](PrefixCacheConfig{})
	require.NoError(b, err)
	_, err = c.Store(tokens, from)
	require.NoError(b, err)
	_, state, ok := c.Lookup(tokens)
	require.True(b, ok)
	beside.Limit(b, "of-copy", func() {
		if err := c.Restore(state, to); err != nil {
			b.Fatal(err)
		}
	}, func() { copied(to, from) })
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tokens)), "ns/token")
}

// A store into a full cache: one entry comes and one goes. It takes as long with many
// entries as with few.
func BenchmarkPrefixKvCacheStoreEvict(b *testing.B) {
	for _, entries := range []int{256, 1024, 4096, 65536} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			c := newHostPrefix(b, PrefixCacheConfig{MaxEntries: entries, MaxBytes: 1 << 30})
			tokens := prompt(0, 16)
			from := hostCache(0, kvShape{1, 8}, tokens)
			store := func(i int) {
				tokens[0], tokens[1] = uint32(i), uint32(i>>16)
				if _, err := c.Store(tokens, from); err != nil {
					b.Fatal(err)
				}
			}
			for i := range entries {
				store(i)
			}
			i := entries
			b.ReportAllocs()
			for b.Loop() {
				store(i)
				i++
			}
			require.Equal(b, entries, c.Len())
		})
	}
}

// BenchmarkPrefixKvCacheLookup finds a prompt of 512 tokens, beside a copy of its rows: what is found is not copied.
func BenchmarkPrefixKvCacheLookup(b *testing.B) {
	tokens, from, to := benchPrompt(b)
	c, err := NewPrefixKvCache[float32](PrefixCacheConfig{})
	require.NoError(b, err)
	_, err = c.Store(tokens, from)
	require.NoError(b, err)
	beside.Limit(b, "of-copy", func() {
		if n, _, _ := c.Lookup(tokens); n != len(tokens) {
			b.Fatal(n)
		}
	}, func() { copied(to, from) })
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tokens)), "ns/token")
}
