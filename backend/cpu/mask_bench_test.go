package cpu

import (
	"slices"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
)

// BenchmarkMasks is a layer's attention with masks that only some devices have, beside the causal one of the
// same batch. least-ns/op is that of the fastest call.
func BenchmarkMasks(b *testing.B) {
	f16 := scene{qHeads: 8, kvHeads: 2, kDim: 64, vDim: 64, act: backend.F32, k: backend.F16, v: backend.F16, block: 16}
	for _, batch := range []struct {
		name         string
		ctx, queries []int
	}{
		{"64 tokens after 1000", slices.Repeat([]int{1000}, 64), slices.Repeat([]int{1}, 64)},
		{"8 trees of 32 drafts after 1000", slices.Repeat([]int{1032}, 8), slices.Repeat([]int{32}, 8)},
		{"a prompt of 1000", []int{1000}, []int{1000}},
	} {
		c := f16
		c.ctx, c.queries = batch.ctx, batch.queries
		for _, kind := range []string{"causal", "views", "trees", "chunks of all"} {
			if kind == "trees" && c.queries[0] > 32 {
				continue
			}
			b.Run(batch.name+"/"+kind, func(b *testing.B) {
				st := c.set(b, 1)
				switch kind {
				case "views":
					st.show(b, c.causalViews(), nil, 0)
				case "trees":
					st.show(b, c.causalViews(), c.chains(1), 1)
				case "chunks of all":
					st.params.Mask.Chunk, st.shape.Chunk = 4096, 4096
					st.plan(b)
				}
				least := time.Hour
				for b.Loop() {
					start := time.Now()
					if err := st.be.Attend(st.s, st.params); err != nil {
						b.Fatal(err)
					}
					least = min(least, time.Since(start))
				}
				b.ReportMetric(float64(least), "least-ns/op")
			})
		}
	}
}
