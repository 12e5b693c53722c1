package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
)

// BenchmarkDecode is a layer's attention in decode steps of many sequences, or of a small model.
// least-ns/op is that of the fastest call.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		seqs, ctx            int
		qHeads, kvHeads, dim int
	}{
		{64, 8192, 4, 1, 64}, {64, 100, 8, 4, 8}, {64, 1000, 8, 4, 8}, {256, 100, 8, 4, 8}, {1, 1, 8, 4, 8}, {1, 100, 8, 4, 8},
	} {
		b.Run(fmt.Sprintf("%d of %d tokens, %d heads of %d", c.seqs, c.ctx, c.qHeads, c.dim), func(b *testing.B) {
			s := scene{qHeads: c.qHeads, kvHeads: c.kvHeads, kDim: c.dim, vDim: c.dim, act: backend.F32, k: backend.F16, v: backend.F16, block: 16,
				ctx: slices.Repeat([]int{c.ctx}, c.seqs), queries: slices.Repeat([]int{1}, c.seqs)}
			st := s.set(b, 1)
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

// BenchmarkCheck is what one goroutine looks at before a layer's attention begins, and what is left
// of that in the layers after the first.
func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct{ seqs, ctx int }{{64, 100}, {256, 100}, {64, 1000}, {64, 8192}} {
		s := scene{qHeads: 1, kvHeads: 1, kDim: 8, vDim: 8, act: backend.F32, k: backend.F16, v: backend.F16, block: 16,
			ctx: slices.Repeat([]int{c.ctx}, c.seqs), queries: slices.Repeat([]int{1}, c.seqs)}
		st := s.set(b, 1)
		var a attention
		for name, check := range map[string]func(*backend.AttendParams[*Buffer]) error{"first": a.look, "known": a.checkOnce} {
			b.Run(fmt.Sprintf("%d of %d tokens/%s", c.seqs, c.ctx, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					a = attention{}
					a.bind("attend", &st.params)
					a.out.of(&st.params.Out.Rows, a.tokens, st.params.QHeads*st.params.Cache.V.Dim)
					if err := check(&st.params); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
