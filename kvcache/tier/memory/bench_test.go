package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

// Put and Get of blocks, and what a copy of the same bytes takes: copies and calls take turns, so that what else the machine does
// meets both. The metrics are the rate of the call, and the fraction that it is of the copy's.
func BenchmarkTier(b *testing.B) {
	for _, size := range []int{64 << 10, 512 << 10, 2 << 20} {
		n := 64 << 20 / size
		for _, op := range []string{"Put", "Get"} {
			b.Run(fmt.Sprintf("%s/%dKiB", op, size>>10), func(b *testing.B) {
				in := open(b, int64(2*n*size))
				sets := [][]tier.Block{tiertest.Chain("bench", "0", n, size), tiertest.Chain("bench", "1", n, size), tiertest.Chain("bench", "2", n, size)}
				to, err := hostmemory.Obtain(n * size)
				require.NoError(b, err)
				b.Cleanup(func() { require.NoError(b, hostmemory.Discard(to)) })
				dst := make([]tier.Block, n)
				for i := range dst {
					dst[i].Bytes = to[i*size:][:size]
					copy(dst[i].Bytes, sets[0][i].Bytes)
				}
				for i := range sets {
					require.NoError(b, in.Put(ctx, sets[i]))
				}
				var copied, called time.Duration
				b.ResetTimer()
				for i := range b.N {
					set := sets[i%3]
					begin := time.Now()
					for j := range dst {
						copy(dst[j].Bytes, set[j].Bytes)
					}
					middle := time.Now()
					if op == "Get" {
						set = sets[1+i%2]
						for j := range dst {
							dst[j].Key = set[j].Key
						}
						got, err := in.Get(ctx, dst)
						require.NoError(b, err)
						require.Equal(b, n, got)
					} else {
						require.NoError(b, in.Put(ctx, set))
					}
					copied += middle.Sub(begin)
					called += time.Since(middle)
				}
				b.ReportMetric(float64(b.N*n*size)/float64(called), "GB/s")
				b.ReportMetric(float64(copied)/float64(called), "copy")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
