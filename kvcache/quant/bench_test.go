package quant

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/stretchr/testify/require"
)

// benchmarked is a full cache of a layer as large models have them, 8 heads of 128.
func benchmarked(b *testing.B, bits int, p evict.Policy) *CacheManager {
	return filled(b, newCache(b, KVCacheConfig{MaxSeqLen: 2048, NumHeads: 8, HeadDim: 128, QuantizationBits: bits, EvictionPolicy: p}), 2048)
}

// BenchmarkAppend is a token that takes the place of another.
func BenchmarkAppend(b *testing.B) {
	for _, bits := range []int{2, 3, 4, 8} {
		for _, p := range []evict.Policy{evict.Recency{}, evict.H2O{Sinks: 4}, evict.SnapKV{Sinks: 4, Window: 32, Kernel: 7}} {
			b.Run(fmt.Sprintf("%d bits/%s", bits, p), func(b *testing.B) {
				c := benchmarked(b, bits, p)
				key := noise(rand.New(rand.NewPCG(5, 5)), c)
				b.ReportAllocs()
				for b.Loop() {
					require.NoError(b, c.Append(key, key, 0))
				}
			})
		}
	}
}

// BenchmarkGetInto is 64 tokens, 512 KiB of float32.
func BenchmarkGetInto(b *testing.B) {
	for _, bits := range []int{2, 3, 4, 8} {
		b.Run(fmt.Sprintf("%d bits", bits), func(b *testing.B) {
			c := benchmarked(b, bits, nil)
			keys, values, positions := make([]float32, 64*1024), make([]float32, 64*1024), make([]int, 64)
			for i := range positions {
				positions[i] = 31 * i
			}
			b.SetBytes(64 * 2 * 1024 * 4)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, c.GetInto(keys, values, positions))
			}
		})
	}
}
