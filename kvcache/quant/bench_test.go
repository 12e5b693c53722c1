package quant

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/beside"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
)

const benchTokens = 1024

// benchmarked is a full cache of a layer as large models have them, 8 heads of 128.
func benchmarked(b *testing.B, bits int, p evict.Policy) *CacheManager {
	return filled(b, newCache(b, KVCacheConfig{MaxSeqLen: benchTokens, NumHeads: 8, HeadDim: 128, QuantizationBits: bits, EvictionPolicy: p}), benchTokens)
}

// rowsOf is keys and values of 64 tokens in float32, 512 KiB, and room for as many.
func rowsOf(c *CacheManager) (from, to [2][]float32) {
	for i := range from {
		r := rand.New(rand.NewPCG(5, uint64(i)))
		for range 64 {
			from[i] = append(from[i], noise(r, c)...)
		}
		to[i] = make([]float32, len(from[i]))
	}
	return from, to
}

// BenchmarkAppend is 64 tokens that take the places of others, beside a copy of their float32 rows.
func BenchmarkAppend(b *testing.B) {
	for _, bits := range []int{8, 4, 3, 2} {
		for _, p := range []evict.Policy{evict.Recency{}, evict.SlidingWindow{Window: benchTokens - 4, Sinks: 4}, evict.H2O{Sinks: 4}, evict.SnapKV{Sinks: 4, Window: 32, Kernel: 7}} {
			b.Run(fmt.Sprintf("%d bits/%s", bits, p), func(b *testing.B) {
				c := benchmarked(b, bits, p)
				from, to := rowsOf(c)
				beside.Limit(b, "of-copy", func() {
					for at := 0; at < len(from[0]); at += 8 * 128 {
						if err := c.Append(from[0][at:at+8*128], from[1][at:at+8*128], 0); err != nil {
							b.Fatal(err)
						}
					}
				}, func() {
					for i := range from {
						copy(to[i], from[i])
					}
				})
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(64*b.N), "ns/token")
			})
		}
	}
}

// BenchmarkGetInto reads 64 tokens, beside a copy of their float32 rows.
func BenchmarkGetInto(b *testing.B) {
	for _, bits := range []int{8, 4, 3, 2} {
		b.Run(fmt.Sprintf("%d bits", bits), func(b *testing.B) {
			c := benchmarked(b, bits, nil)
			from, to := rowsOf(c)
			positions := make([]int, 64)
			for i := range positions {
				positions[i] = (benchTokens/64 - 1) * i
			}
			beside.Limit(b, "of-copy", func() { require.NoError(b, c.GetInto(to[0], to[1], positions)) }, func() {
				for i := range from {
					copy(to[i], from[i])
				}
			})
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(64*b.N), "ns/token")
		})
	}
}
