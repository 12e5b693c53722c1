package cpu

import (
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A whole prompt's causal attention on one thread. Operations are those of the keys that
// queries see: a multiplication and an addition for each element of a key and of a value.
func BenchmarkPrefill(b *testing.B) {
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.Int8} {
		for _, tokens := range []int{2048, 8192} {
			for _, block := range []int{0, 16} {
				b.Run(fmt.Sprintf("%s/tokens=%d/block=%d", dt, tokens, block), func(b *testing.B) {
					c := scene{qHeads: 32, kvHeads: 8, kDim: 128, vDim: 128, act: dt, k: dt, v: dt,
						ctx: []int{tokens}, queries: []int{tokens}, block: block, threads: 1}
					if !dt.Float() {
						c.act = backend.F32
					}
					st := c.set(b, 1)
					for b.Loop() {
						if err := st.be.Attend(st.s, st.params); err != nil {
							b.Fatal(err)
						}
					}
					operations := 4 * float64(c.kDim*c.qHeads) * float64(tokens) * float64(tokens+1) / 2
					b.ReportMetric(operations*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
				})
			}
		}
	}
}
