package cpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Attention over a contiguous cache of which only the context was ever written, and over one that
// was written from end to end, "touched", 20 calls of each in turns: least-ns/op are those of the fastest
// 20, "ratio" is the median of what the first took over what the second took.
func BenchmarkAttendUntouched(b *testing.B) {
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.Int8} {
		for _, capacity := range []int{128, 144, 256, 1024} {
			b.Run(fmt.Sprintf("%s/capacity=%d", dt, capacity), func(b *testing.B) {
				be, s := open(b, 1)
				calls := [2]backend.AttendParams[*Buffer]{beside(b, be, s, dt, capacity, false), beside(b, be, s, dt, capacity, true)}
				least := [2]time.Duration{time.Hour, time.Hour}
				var ratios []float64
				for b.Loop() {
					var round [2]time.Duration
					for i, p := range calls {
						start := time.Now()
						for range 20 {
							if err := be.Attend(s, p); err != nil {
								b.Fatal(err)
							}
						}
						round[i] = time.Since(start)
						least[i] = min(least[i], round[i])
					}
					ratios = append(ratios, float64(round[0])/float64(round[1]))
				}
				slices.Sort(ratios)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(least[0])/20, "least-ns/op")
				b.ReportMetric(float64(least[1])/20, "touched-least-ns/op")
				b.ReportMetric(ratios[len(ratios)/2], "ratio")
			})
		}
	}
}

// beside is a decode step of 8 query heads and 4 KV heads of 64 over the first 128 tokens of a
// contiguous cache; written says whether anything was stored after them.
func beside(tb testing.TB, be *Backend, s backend.Stream, dt backend.DType, capacity int, written bool) backend.AttendParams[*Buffer] {
	tb.Helper()
	const qHeads, kvHeads, dim, ctx = 8, 4, 64, 128
	shape := backend.AttendShape{QHeads: qHeads, KVHeads: kvHeads, KDim: dim, VDim: dim, BlockSize: capacity,
		Format: backend.Format{Act: backend.F32, K: dt, V: dt}, ContextLens: []uint32{ctx}, QueryLens: []uint32{1}}
	plan, err := be.PlanAttend(shape)
	require.NoError(tb, err)
	v := backend.CacheView[*Buffer]{Blocks: 1, KVHeads: kvHeads, BlockSize: capacity}
	for _, p := range []*backend.Plane[*Buffer]{&v.K, &v.V} {
		p.Dim = dim
		p.Data, err = be.Alloc(dt, kvHeads*capacity*dim)
		require.NoError(tb, err)
		words, n, _ := dt.Scales(1, kvHeads, capacity, dim)
		if n > 0 {
			scales, err := be.Alloc(words, n)
			require.NoError(tb, err)
			p.Scales = backend.Some(scales)
		}
		row, rows := p.Data.size/(kvHeads*capacity), ctx
		if written {
			rows = capacity
		}
		for h := range kvHeads {
			for i := range rows * row {
				p.Data.mem[h*capacity*row+i] = byte(i % 60)
			}
			if p.Scales.Set {
				words := view[float32](p.Scales.Buf)
				for i := range rows * (len(words) / (kvHeads * capacity)) {
					words[h*capacity*(len(words)/(kvHeads*capacity))+i] = 1.0 / 64
				}
			}
		}
	}
	return backend.AttendParams[*Buffer]{Cache: v, QHeads: qHeads, Scale: 1, Plan: plan,
		Batch: backend.Ragged[*Buffer]{Seqs: 1, Tokens: 1, ContextLens: numbers(tb, be, s, backend.U32, shape.ContextLens)},
		Q:     backend.Dense(floats(tb, be, backend.F32, make([]float32, qHeads*dim))),
		Out:   backend.Outputs[*Buffer]{Rows: backend.Dense(floats(tb, be, backend.F32, make([]float32, qHeads*dim)))},
		Work:  backend.Some(numbers(tb, be, s, backend.U32, plan.Work))}
}
