//go:build unix

package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A decode step of sequences with common first tokens, blocks of 16, 8 KV heads of 128: each
// for itself and read as one, in turns. The figures are medians, of the time of all processors, and how many
// times as fast the latter is, with quartiles; wall-times is that of the time that passes.
func BenchmarkAttendShared(b *testing.B) {
	for _, c := range []struct {
		dt                       backend.DType
		seqs, shared, own, group int
	}{
		{backend.F16, 64, 8192, 128, 1}, {backend.F16, 64, 8192, 128, 2}, {backend.F16, 64, 8192, 128, 4}, {backend.F16, 64, 8192, 128, 8},
		{backend.F32, 64, 8192, 128, 1}, {backend.F32, 64, 8192, 128, 4},
		{backend.Int8, 64, 8192, 128, 1}, {backend.Int8, 64, 8192, 128, 4}, {backend.Int4, 64, 8192, 128, 1}, {backend.Int4, 64, 8192, 128, 4},
		{backend.F16, 8, 8192, 128, 1}, {backend.F16, 8, 8192, 128, 4}, {backend.F16, 2, 2048, 128, 1}, {backend.F16, 2, 2048, 128, 4},
		{backend.F16, 16, 128, 64, 1}, {backend.F16, 16, 128, 64, 4},
	} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/seqs=%d/shared=%d/group=%d/threads=%d", c.dt, c.seqs, c.shared, c.group, threads), func(b *testing.B) {
				one := sharedStage(b, c.dt, c.seqs, c.shared, c.own, c.group, threads)
				each := *one
				each.shape.Table = nil
				each.plan(b)
				one.shape.MinShared = 16
				one.plan(b)
				var took, wall [2][]float64
				for b.Loop() {
					for i, st := range []*stage{&each, one} {
						start, before := time.Now(), processorTime(b)
						if err := st.be.Attend(st.s, st.params); err != nil {
							b.Fatal(err)
						}
						wall[i] = append(wall[i], float64(time.Since(start)))
						took[i] = append(took[i], float64(processorTime(b)-before))
					}
				}
				times, wallTimes := ratios(took), ratios(wall)
				b.ReportMetric(quartile(took[0], 2)/1e3, "each-µs")
				b.ReportMetric(quartile(took[1], 2)/1e3, "one-µs")
				b.ReportMetric(quartile(times, 1), "q1-times")
				b.ReportMetric(quartile(times, 2), "times")
				b.ReportMetric(quartile(times, 3), "q3-times")
				b.ReportMetric(quartile(wallTimes, 2), "wall-times")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// ratios is those of what was measured in turns.
func ratios(x [2][]float64) (out []float64) {
	for i, a := range x[0] {
		out = append(out, a/x[1][i])
	}
	return out
}

// quartile is the i-th of x, which it sorts.
func quartile(x []float64, i int) float64 {
	slices.Sort(x)
	return x[i*(len(x)-1)/4]
}

// processorTime is that of the process on all processors.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// sharedStage is a decode step whose sequences begin in the same blocks.
func sharedStage(t testing.TB, dt backend.DType, seqs, shared, own, group, threads int) *stage {
	const block, kvHeads, dim = 16, 8, 128
	be, s := open(t, threads)
	rng := rand.New(rand.NewPCG(1, 2))
	stride := (shared + own) / block
	blocks := shared/block + seqs*own/block
	var table, lens, queries []uint32
	for i := range seqs {
		for j := range stride {
			if j >= shared/block {
				j += i * own / block
			}
			table = append(table, uint32(j))
		}
		lens, queries = append(lens, uint32(shared+own)), append(queries, 1)
	}
	st := &stage{be: be, s: s}
	view := backend.CacheView[*Buffer]{Blocks: blocks, KVHeads: kvHeads, BlockSize: block}
	n := blocks * kvHeads * block * dim
	view.K, view.V = planeFrom(t, be, view, dt, dim, randoms(rng, n)), planeFrom(t, be, view, dt, dim, randoms(rng, n))
	act := dt
	if !dt.Float() {
		act = backend.F32
	}
	p := &st.params
	*p = backend.AttendParams[*Buffer]{Cache: view, QHeads: group * kvHeads, Scale: 0.09}
	p.Batch = backend.Ragged[*Buffer]{Seqs: seqs, Tokens: seqs, ContextLens: numbers(t, be, s, backend.U32, lens),
		Table: backend.Some(numbers(t, be, s, backend.U32, table)), TableStride: stride}
	p.Q = backend.Dense(floats(t, be, act, randoms(rng, seqs*group*kvHeads*dim)))
	p.Out.Rows = backend.Dense(floats(t, be, act, make([]float32, seqs*group*kvHeads*dim)))
	st.shape = backend.AttendShape{QHeads: group * kvHeads, KVHeads: kvHeads, KDim: dim, VDim: dim, BlockSize: block,
		Format: backend.Format{Act: act, K: dt, V: dt}, ContextLens: lens, QueryLens: queries,
		Table: table, TableStride: stride}
	return st
}
