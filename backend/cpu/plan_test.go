package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

func shapeOf(qHeads, kvHeads int, ctx, queries []uint32) backend.AttendShape {
	return backend.AttendShape{QHeads: qHeads, KVHeads: kvHeads, KDim: 8, VDim: 4, BlockSize: 16,
		Format: backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}, ContextLens: ctx, QueryLens: queries}
}

// itemsOf decodes a plan's work.
func itemsOf(plan backend.AttendPlan) []item {
	var out []item
	for i := range plan.Work[wordItems] {
		var it item
		it.decode(plan.Work[headerWords+i*itemWords:])
		out = append(out, it)
	}
	return out
}

// listedOf is the queries of a plan's items of several sequences.
func listedOf(plan backend.AttendPlan) []listed {
	a := attention{listed: plan.Work[headerWords+plan.Items*itemWords:]}
	out := make([]listed, plan.Work[wordListed])
	for i := range out {
		out[i] = a.listedAt(i)
	}
	return out
}

// Every key that a query sees is in exactly one item, and partial rows do not
// overlap.
func TestPlanCoversEveryPairOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		kvHeads, group := rapid.IntRange(1, 4).Draw(r, "kv heads"), rapid.SampledFrom([]int{1, 3, 8, 40}).Draw(r, "group")
		var ctx, queries []uint32
		for range rapid.IntRange(0, 4).Draw(r, "seqs") {
			ctx = append(ctx, rapid.Uint32Range(0, 3000).Draw(r, "ctx"))
			queries = append(queries, rapid.Uint32Range(0, 70).Draw(r, "queries"))
		}
		s := shapeOf(kvHeads*group, kvHeads, ctx, queries)
		s.Scores = rapid.Bool().Draw(r, "mass")
		if rapid.Bool().Draw(r, "tables") {
			s.TableStride, s.MinShared = 3001/s.BlockSize+1, rapid.SampledFrom([]int{1, 300}).Draw(r, "fewest shared")
			for seq := range ctx { // which share some of what the first has
				same := rapid.SampledFrom([]int{0, 1, 3, 40, s.TableStride}).Draw(r, "shared blocks")
				for i := range s.TableStride {
					if s.Table = append(s.Table, uint32(i)); seq > 0 && i >= same {
						s.Table[len(s.Table)-1] += uint32(1000 * seq)
					}
				}
			}
		}
		if s.NonCausal = rapid.Bool().Draw(r, "non-causal"); !s.NonCausal {
			s.Window = rapid.SampledFrom([]int{0, 1, 300, 1000, math.MaxInt}).Draw(r, "window")
			s.SinkTokens = rapid.SampledFrom([]int{0, 4, 500}).Draw(r, "sinks")
			if s.Part = backend.Part(rapid.IntRange(0, 2).Draw(r, "part")); s.Part != backend.AllKeys {
				s.Residual = rapid.SampledFrom([]int{1, 40, 600, math.MaxInt}).Draw(r, "recent")
			}
		}
		see := plan.Planned(&s)
		be, err := Open(Options{Threads: rapid.IntRange(1, 9).Draw(r, "threads"), Reproducible: rapid.Bool().Draw(r, "reproducible")})
		require.NoError(r, err)
		defer func() { require.NoError(r, be.Close()) }()
		plan, err := be.PlanAttend(s)
		require.NoError(r, err)
		items := itemsOf(plan)
		require.Len(r, items, plan.Items)

		covered, rows, parts, units := make([]map[int]int, len(ctx)), 0, 0, 0 // by sequence, query*3000+key
		partial := map[int]bool{}                                             // rows that are written
		for i := range covered {
			covered[i] = map[int]int{}
		}
		for _, it := range items {
			for q := it.q0; q < it.q1; q++ {
				seq, query := it.seq, q
				if it.many() {
					m := listedOf(plan)[q]
					seq, query = m.seq, m.query
					step := int(queries[seq]) * s.QHeads
					for row := range s.QHeads {
						require.False(r, partial[m.row+it.part*step+row])
						partial[m.row+it.part*step+row] = true
					}
				} else if it.parts > 1 {
					row := it.base + (it.part*(it.q1-it.q0)+q-it.q0)*s.QHeads
					for i := range s.QHeads {
						require.False(r, partial[row+i])
						partial[row+i] = true
					}
				}
				for key := it.k0; key < it.k1; key++ {
					covered[seq][query*3001+key]++
				}
			}
			few := s.Scores && ((it.q1-it.q0)*group <= fewRows || it.many())
			require.Equal(r, few, it.kept > 0)
			if few {
				require.Equal(r, units+1, it.kept)
				units += (it.chunks*(it.q1-it.q0)*s.QHeads*(chunk+1) + keptUnit - 1) / keptUnit
			}
			if !it.many() && it.parts > 1 && it.part == it.parts-1 {
				require.Equal(r, rows, it.base)
				rows += it.parts * (it.q1 - it.q0) * s.QHeads
				parts += it.parts
			}
		}
		require.Equal(r, parts, plan.Parts)
		require.Len(r, partial, rows, "no partial row is missing")
		tokens := 0
		for i, n := range queries {
			tokens += int(n)
			for q := range int(n) {
				keys := see.Of(int(ctx[i]), int(n), q, q+1)
				for key := range int(ctx[i]) {
					if keys.Has(key) {
						require.Equal(r, 1, covered[i][q*3001+key], "sequence %d, query %d, key %d", i, q, key)
					}
				}
			}
		}
		want := rows * (s.VDim + 1)
		if s.Scores {
			want += tokens*s.QHeads + units*keptUnit
		}
		require.Equal(r, want, plan.Workspace)
	})
}

// Where there are enough heads or sequences for the workers, nothing is split.
func TestPlanSplitsOnlyWhereItPays(t *testing.T) {
	for _, c := range []struct {
		threads, kvHeads int
		ctx              []uint32
		block, parts     int
	}{
		{1, 1, []uint32{100000}, 16, 0},
		{2, 8, []uint32{8192}, 8192, 0},
		{2, 8, []uint32{8192}, 16, 0}, // four heads side by side on each
		{2, 1, []uint32{8192}, 16, 2},
		{3, 2, []uint32{8192}, 16, 3},
		{8, 8, []uint32{8192}, 8192, 0},
		{8, 8, []uint32{8192}, 16, 0},
		{8, 8, []uint32{8192, 8192}, 16, 0}, // one head each
		{8, 8, []uint32{8192, 100}, 16, 2},  // two tiles, of which one may end later
		{2, 8, []uint32{8192, 8192}, 16, 0},
		{6, 8, []uint32{8192}, 16, 3}, // four pieces for each, where 8 heads would leave four workers without one
		{16, 8, []uint32{8192}, 8192, 2},
		{16, 8, []uint32{8192}, 16, 2},
		{64, 8, []uint32{8192}, 16, 8},
		{64, 8, []uint32{1024}, 16, 4},
		{8, 1, []uint32{511}, 16, 0},
		{8, 1, []uint32{512}, 16, 2},
		{8, 1, []uint32{513}, 16, 2}, // and no third for one key
		{4, 1, []uint32{8192, 30, 30}, 16, 8},
		{4, 1, []uint32{400, 400, 400, 400, 400, 400, 400, 400}, 16, 0},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			be, _ := open(t, c.threads)
			queries := make([]uint32, len(c.ctx))
			for i := range queries {
				queries[i] = 1
			}
			s := shapeOf(c.kvHeads*4, c.kvHeads, c.ctx, queries)
			s.BlockSize = c.block
			plan, err := be.PlanAttend(s)
			require.NoError(t, err)
			require.Equal(t, c.parts, plan.Parts)
		})
	}
}

// However many workers there are, they end at about the same time: items are simulated as they are handed out, one after another to
// the worker that is free first. Only where there are fewer parts of minPart keys of one head than workers do some go without.
func TestPlanKeepsWorkersBusy(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 5, 6, 7, 8, 12, 16, 24, 64} {
		be, _ := open(t, workers)
		for _, kvHeads := range []int{1, 2, 4, 8, 32} {
			for _, ctx := range [][]uint32{{1}, {128}, {256}, {512}, {1024}, {8192}, {32768}, {512, 512}, {8192, 8192, 8192}, {8192, 16}, {32768, 500, 500, 500}} {
				for _, block := range []int{16, 1 << 16} {
					name := fmt.Sprintf("%d workers, %d heads over %v keys in blocks of %d", workers, kvHeads, ctx, block)
					s := shapeOf(4*kvHeads, kvHeads, ctx, slices.Repeat([]uint32{1}, len(ctx)))
					s.BlockSize = block
					plan, err := be.PlanAttend(s)
					require.NoError(t, err)
					l := workload{kvHeads: kvHeads, block: block}
					heads := l.together(4, int(plan.Work[wordAbreast]))
					busy, all := make([]int, workers), 0 // pairs of a key and a head
					for first := 0; first < kvHeads; first += heads {
						for _, it := range itemsOf(plan) {
							piece := (it.k1 - it.k0) * min(heads, kvHeads-first)
							busy[slices.Index(busy, slices.Min(busy))] += piece
							all += piece
						}
					}
					units, unit := 0, 0 // the smallest pieces that there can be, and the largest of them
					for _, keys := range ctx {
						n := max(int(keys)/minPart, 1)
						units, unit = units+kvHeads*n, max(unit, ceilDiv(int(keys), n))
					}
					longest, share := slices.Max(busy), ceilDiv(all, workers)
					require.LessOrEqual(t, longest, max(share+share/3+chunk, ceilDiv(units, workers)*unit+chunk), name)
					switch {
					case workers == 1:
						require.Len(t, itemsOf(plan), len(ctx), name)
					case kvHeads%workers == 0 && len(ctx) == 1:
						require.Zero(t, plan.Parts, name)
						require.Equal(t, share, longest, name)
					}
				}
			}
		}
	}
}

func TestPlanOverflow(t *testing.T) {
	be, _ := open(t, 2)
	s := shapeOf(1<<30, 1<<30, []uint32{1 << 31, 1 << 31}, []uint32{math.MaxUint32, 1})
	s.KDim = 1 << 30
	_, err := be.PlanAttend(s)
	require.ErrorIs(t, err, backend.ErrArgument{})
	_, err = be.PlanAttend(shapeOf(1, 1, []uint32{1}, nil))
	require.ErrorIs(t, err, backend.ErrArgument{})
}

// How many heads walk side by side is a matter of speed: any number gives the same bits.
func TestHeadsSideBySideGiveTheSameBits(t *testing.T) {
	for _, name := range names() {
		c := scene{qHeads: 22, kvHeads: 11, kDim: 32, vDim: 32, act: backend.F32, k: backend.F16, v: backend.Int8,
			ctx: []int{700, 33}, queries: []int{1, 3}, block: 16, threads: 2, options: Options{Kernels: name}}
		st := c.set(t, 1)
		want := st.attend(t)
		for heads := uint32(1); heads <= maxTogether; heads++ {
			st.words(t, st.params.Work.Buf)[wordAbreast] = heads
			require.Equal(t, want.out, st.attend(t).out, "%s, %d heads", name, heads)
		}
	}
}

// Work is recognised: what was not made for the call, or was overwritten, is an
// error and not an output with holes in it.
func TestAttendRefusesOtherWork(t *testing.T) {
	c := scene{qHeads: 2, kvHeads: 1, kDim: 16, vDim: 16, act: backend.F32, k: backend.F32, v: backend.F32,
		ctx: []int{2000, 20, 80}, queries: []int{1, 2, 60}, block: 16, threads: 4, mass: true}
	for _, name := range names() {
		for _, reproducible := range []bool{false, true} {
			c.options = Options{Kernels: name, Reproducible: reproducible}
			c.ctx[0] = 2000
			if reproducible {
				c.ctx[0] = 2 * fixedPart
			}
			t.Run(fmt.Sprint(name, reproducible), func(t *testing.T) { refusesOtherWork(t, c) })
		}
	}
}

func refusesOtherWork(t *testing.T, c scene) {
	st := c.set(t, 1)
	require.Positive(t, st.params.Plan.Parts)
	work := st.words(t, st.params.Work.Buf)
	good := append([]uint32(nil), work...)
	for i := range work {
		for _, v := range []uint32{0, 1, 1 << 20, math.MaxUint32} {
			copy(work, good)
			if work[i] = v; work[i] == good[i] {
				continue
			}
			// A valid but different value may pass; nothing may panic or leave the operands.
			if err := st.be.Attend(st.s, st.params); i < 3 {
				require.ErrorIs(t, err, backend.ErrArgument{}, "word %d", i)
			}
		}
	}
	for _, v := range []uint32{0, maxTogether + 1, math.MaxUint32} {
		work[wordAbreast] = v
		require.ErrorContains(t, st.be.Attend(st.s, st.params), "side by side")
	}
	copy(work, good)
	require.NoError(t, st.be.Fill(st.s, st.params.Out.Scores.Buf, 0, st.params.Out.Scores.Buf.Len(), 0))
	compare(t, c, st.attend(t), st.reference(c))

	lens := st.words(t, st.params.Batch.ContextLens)
	lens[1]-- // a step later
	require.ErrorContains(t, st.be.Attend(st.s, st.params), "PlanAttend")
	lens[1]++
	st.params.Work = backend.Opt[*Buffer]{}
	require.ErrorIs(t, st.be.Attend(st.s, st.params), backend.ErrArgument{})
}
