package host

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// A hit of 8192 tokens: the state is two allocations, whatever the layers hold.
func BenchmarkPrefixKvCacheLookup(b *testing.B) {
	c := newHostPrefix(b, PrefixCacheConfig{})
	tokens := prompt(0, 8192)
	_, err := c.Store(tokens, hostCache(0, kvShape{1, 8}, tokens))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if n, _, _ := c.Lookup(tokens); n != 8192 {
			b.Fatal(n)
		}
	}
}
