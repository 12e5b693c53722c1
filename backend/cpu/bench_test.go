package cpu

import (
	"fmt"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Bytes per second are those of the keys and values that the step reads.
func BenchmarkAttend(b *testing.B) {
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16} {
		for _, queries := range []int{1, 64} {
			for _, block := range []int{0, 16} {
				b.Run(fmt.Sprintf("%s/queries=%d/block=%d", dt, queries, block), func(b *testing.B) {
					c := scene{qHeads: 32, kvHeads: 8, kDim: 128, vDim: 128, act: backend.F32, k: dt, v: dt,
						ctx: []int{2048}, queries: []int{queries}, block: block}
					st := c.set(b, 1)
					b.SetBytes(int64(2 * 2048 * 8 * 128 * dt.Bits() / 8))
					b.ReportAllocs()
					for b.Loop() {
						if err := st.be.Attend(st.s, st.params); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
