package tier_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

// The cost of sums: a block of 2 MiB into a tier of host memory and back, alternately by a mover and by the tier
// alone. A mover sums what it stores; what it loads, it checks (Get), or the tier does in its copy (GetChecked). The metrics are the
// mover's median rate, and its ratio to the tier's.
func BenchmarkSums(b *testing.B) {
	const payload, n = 2 << 20, 1
	for _, op := range []string{"Put", "Get", "GetChecked"} {
		b.Run(op, func(b *testing.B) {
			in, err := memory.Open(memory.Options{Bytes: 16 * payload})
			require.NoError(b, err)
			o := tier.MoverOptions{}
			if op == "GetChecked" {
				o.Checked = 1
			}
			m, err := tier.NewMover([]tier.Tier{in}, o)
			require.NoError(b, err)
			room, err := hostmemory.Obtain(n * payload)
			require.NoError(b, err)
			blocks := tiertest.Chain("bench", "a", n, payload)
			for i := range blocks {
				at := room[i*payload:][:payload:payload]
				copy(at, blocks[i].Bytes)
				blocks[i].Bytes = at
			}
			require.NoError(b, in.Put(ctx, blocks))
			released := make(chan struct{})
			job := tier.Job{Blocks: blocks, Release: func() { released <- struct{}{} }}
			var alone, moved []time.Duration
			for b.Loop() {
				if op == "Put" {
					require.NoError(b, in.Clear(ctx, tier.Key{}))
				}
				begin := time.Now()
				if op == "Put" {
					err = in.Put(ctx, blocks)
				} else {
					_, err = in.Get(ctx, blocks)
				}
				alone = append(alone, time.Since(begin))
				require.NoError(b, err)
				if op == "Put" {
					require.NoError(b, in.Clear(ctx, tier.Key{}))
				}
				begin = time.Now()
				if op == "Put" {
					err = m.Store(ctx, job)
				} else {
					err = m.Load(ctx, job)
				}
				require.NoError(b, err)
				<-released
				moved = append(moved, time.Since(begin))
			}
			slices.Sort(alone)
			slices.Sort(moved)
			half := len(moved) / 2
			b.ReportMetric(n*payload/float64(moved[half]), "GB/s")
			b.ReportMetric(alone[half].Seconds()/moved[half].Seconds(), "of-tier")
			b.ReportMetric(0, "ns/op")
			require.NoError(b, m.Close())
			require.NoError(b, in.Close())
			require.NoError(b, hostmemory.Discard(room))
		})
	}
}
