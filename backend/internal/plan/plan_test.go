package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

var (
	f16 = backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}
	f32 = backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}
)

func shapeOf(format backend.Format, qHeads, kvHeads int, contexts, queries []uint32) backend.AttendShape {
	return backend.AttendShape{QHeads: qHeads, KVHeads: kvHeads, KDim: 64, VDim: 80, BlockSize: 16,
		Format: format, ContextLens: contexts, QueryLens: queries}
}

// callOf is the call that a plan for s serves.
func callOf(s backend.AttendShape) Call {
	c := Call{QHeads: s.QHeads, KVHeads: s.KVHeads, KDim: s.KDim, VDim: s.VDim, Cache: cacheOf(&s, false), Seqs: len(s.QueryLens),
		See: Planned(&s), Mass: s.Scores}
	for _, n := range s.QueryLens {
		c.Tokens += int(n)
	}
	return c
}

// readWork reads the work of a plan for a call.
func readWork(work []uint32, c Call) (w Work, err error) {
	err = w.Read(work, &c)
	return w, err
}

// listOf is the items of one list of a plan.
func listOf(work []uint32, l List) []abi.AttendItem {
	return itemsOf(work[abi.WorkHeader:])[l.First : l.First+l.Count]
}

func drawShape(r *rapid.T) (backend.AttendShape, Capacity) {
	kvHeads, group := rapid.IntRange(1, 3).Draw(r, "kv heads"), rapid.SampledFrom([]int{1, 3, 4, 16, 40}).Draw(r, "group")
	var contexts, queries []uint32
	for range rapid.IntRange(0, 7).Draw(r, "seqs") {
		contexts = append(contexts, rapid.Uint32Range(0, 2000).Draw(r, "context"))
		queries = append(queries, rapid.SampledFrom([]uint32{0, 1, 1, 1, 2, 5, 16, 17, 65}).Draw(r, "queries"))
	}
	s := shapeOf(rapid.SampledFrom([]backend.Format{f16, f32, {Act: backend.F16, K: backend.Int4, V: backend.Int4}}).Draw(r, "format"), kvHeads*group, kvHeads, contexts, queries)
	if rapid.Bool().Draw(r, "latent") {
		s.Latent, s.KDim, s.VDim = true, 576, 512
	}
	s.Scores = rapid.Bool().Draw(r, "mass")
	s.Fixed = rapid.Bool().Draw(r, "fixed")
	if rapid.Bool().Draw(r, "tables") {
		s.TableStride = 2000/16 + rapid.IntRange(1, 3).Draw(r, "stride")
		s.Table = drawTables(r, len(queries), s.TableStride)
		s.MinShared = rapid.SampledFrom([]int{0, 1, 64, 300}).Draw(r, "fewest shared")
	} else {
		s.BlockSize = rapid.SampledFrom([]int{8, 16, 64}).Draw(r, "block")
	}
	if s.NonCausal = rapid.Bool().Draw(r, "non-causal"); !s.NonCausal {
		s.Window = rapid.SampledFrom([]int{0, 1, 300, 1000, math.MaxInt}).Draw(r, "window")
		s.SinkTokens = rapid.SampledFrom([]int{0, 4, 500}).Draw(r, "sinks")
		if s.Part = backend.Part(rapid.IntRange(0, 2).Draw(r, "part")); s.Part != backend.AllKeys {
			s.Residual = rapid.SampledFrom([]int{1, 40, 300, math.MaxInt}).Draw(r, "recent")
		}
	}
	capacity := rapid.SampledFrom([]int{0, 1, 8, 100, 1000})
	return s, Capacity{capacity.Draw(r, "vector"), capacity.Draw(r, "decode"), capacity.Draw(r, "prefill"), rapid.SampledFrom([]int{0, 1, 132}).Draw(r, "wide")}
}

// drawTables is tables of which some begin as others do.
func drawTables(r *rapid.T, seqs, stride int) (tables []uint32) {
	for seq := range seqs {
		same := 0
		if seq > 0 {
			same = rapid.SampledFrom([]int{0, 1, 20, 63, 64, 100, stride}).Draw(r, "shared blocks")
			from := rapid.IntRange(0, seq-1).Draw(r, "shared with")
			tables = append(tables, tables[from*stride:][:same]...)
		}
		for i := same; i < stride; i++ {
			tables = append(tables, uint32(rapid.IntRange(0, 1).Draw(r, "order")*100000+seq*stride+i))
		}
	}
	return tables
}

// rowsOf is the rows of an item: of its sequence, or those that it lists.
func rowsOf(work []uint32, w Work, it abi.AttendItem) (rows []abi.AttendRow) {
	for i := range it.Rows {
		if it.Seq != abi.ManySeqs {
			rows = append(rows, abi.AttendRow{Seq: it.Seq, Row: it.Row + i, Partial: it.Base + i, Step: it.Rows})
			continue
		}
		word := work[int(w.Shared.First)+int(it.Row+i)*abi.RowWords:]
		rows = append(rows, abi.AttendRow{Seq: word[0], Row: word[1], Partial: word[2], Step: word[3]})
	}
	return rows
}

// A plan asks for the kinds that its step has, and passes on that one is not to be had.
func TestOnlyKindsOfTheStepAreAskedFor(t *testing.T) {
	f16 := backend.Format{Act: backend.F16, K: backend.F16, V: backend.F16}
	wide := 0
	asked := func(s backend.AttendShape) (kinds []Kind) {
		_, err := Attend(s, func(k Kind) (int, error) {
			kinds = append(kinds, k)
			if k == Wide {
				return wide, nil
			}
			return 100, nil
		})
		require.NoError(t, err)
		return kinds
	}
	long := []uint32{1000, 1000}
	require.Equal(t, []Kind{Vector}, asked(shapeOf(f16, 2, 2, long, []uint32{1, 1})))
	require.Equal(t, []Kind{Decode}, asked(shapeOf(f16, 16, 2, long, []uint32{1, 1})))
	require.Equal(t, []Kind{Decode, Prefill}, asked(shapeOf(f16, 16, 2, long, []uint32{1, 8})))
	require.Equal(t, []Kind{Wide, Decode, Prefill}, asked(shapeOf(f16, 16, 2, long, []uint32{1, 500})), "the device has no such kernel")
	wide = 100
	require.Equal(t, []Kind{Wide, Decode}, asked(shapeOf(f16, 16, 2, long, []uint32{1, 500})))
	latent := shapeOf(f16, 16, 1, long, []uint32{1, 1})
	latent.Latent = true
	require.Equal(t, []Kind{Decode}, asked(latent))
	latent.QHeads = 17
	require.Equal(t, []Kind{Wide}, asked(latent))
	wide = 0
	require.Equal(t, []Kind{Wide, Decode}, asked(latent), "the device has no such kernel")
	require.Empty(t, asked(shapeOf(f16, 16, 2, long, []uint32{0, 0})))
	shared := shapeOf(f16, 16, 2, long, []uint32{1, 1})
	shared.Table, shared.TableStride = make([]uint32, 2*63), 63
	require.Equal(t, []Kind{Decode}, asked(shared), "too little is shared")
	shared.MinShared = 64
	require.Equal(t, []Kind{Decode}, asked(shared), "of two rows of 8")
	shared.Fixed = true
	require.Equal(t, []Kind{Decode, Prefill}, asked(shared), "there is room for groups")
	refused := errors.New("no such kernel")
	_, err := Attend(shared, func(Kind) (int, error) { return 0, refused })
	require.ErrorIs(t, err, refused)
}

// Every key that a row may see is in exactly one item, also for a mask that is narrower than the
// plan's: of the row's kind or, where the blocks are the same for all of its rows, of several
// sequences.
func TestEveryRowSeesEveryKeyOnce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, capacity := drawShape(r)
		plan, err := Attend(s, capacity.Resident)
		require.NoError(r, err)
		c := callOf(s)
		if !s.NonCausal && rapid.Bool().Draw(r, "narrower") {
			window, sinks := rapid.IntRange(1, 1000).Draw(r, "narrower window"), rapid.IntRange(0, s.SinkTokens).Draw(r, "fewer sinks")
			if s.Window == 0 || window <= s.Window {
				c.See = visible(false, window, sinks, 0, s.Part, s.Residual, s.BlockSize)
			}
		}
		work, err := readWork(plan.Work, c)
		require.NoError(r, err)

		group := s.QHeads / s.KVHeads
		type spot struct{ seq, row int }
		spans := map[spot][][2]int{} // of keys
		cache := cacheOf(&s, MayBeWide(s.Format) && capacity[Wide] > 0)
		for kind, list := range work.Kinds {
			tile := cache.tileRows(Kind(kind))
			for _, it := range listOf(plan.Work, list) {
				if it.Rows == 0 {
					require.True(r, s.Fixed)
					continue
				}
				rows := rowsOf(plan.Work, work, it)
				if it.Seq == abi.ManySeqs {
					requireShared(r, s, it, rows, tile)
				} else {
					all := int(s.QueryLens[it.Seq]) * group
					require.Equal(r, Kind(kind), cache.KindOf(all))
					require.Zero(r, int(it.Row)%tile)
					require.EqualValues(r, min(tile, all-int(it.Row)), it.Rows)
					require.LessOrEqual(r, it.KeyEnd, s.ContextLens[it.Seq])
				}
				for _, row := range rows {
					at := spot{int(row.Seq), int(row.Row)}
					spans[at] = append(spans[at], [2]int{int(it.Key), int(it.KeyEnd)})
				}
			}
		}
		for seq, n := range s.QueryLens {
			for row := range int(n) * group {
				require.NotEmpty(r, spans[spot{seq, row}], "sequence %d, row %d has no item", seq, row)
				seen := c.See.Of(int(s.ContextLens[seq]), int(n), row/group, row/group+1)
				for key := range int(s.ContextLens[seq]) {
					if !seen.Has(key) {
						continue
					}
					times := 0
					for _, span := range spans[spot{seq, row}] {
						if key >= span[0] && key < span[1] {
							times++
						}
					}
					if times != 1 {
						require.Equal(r, 1, times, "sequence %d, row %d, key %d", seq, row, key)
					}
				}
			}
		}
	})
}

// requireShared checks an item of several sequences: its keys lie in the same blocks of all of
// them, before their queries.
func requireShared(r *rapid.T, s backend.AttendShape, it abi.AttendItem, rows []abi.AttendRow, tile int) {
	require.LessOrEqual(r, int(it.Rows), tile)
	require.Zero(r, s.Window)
	blocks := func(seq uint32) []uint32 {
		return s.Table[int(seq)*s.TableStride:][int(it.Key)/s.BlockSize : (int(it.KeyEnd)-1)/s.BlockSize+1]
	}
	for _, row := range rows {
		before, see := int(s.ContextLens[row.Seq]-s.QueryLens[row.Seq]), Planned(&s)
		if s.Part == backend.OlderKeys {
			before = see.Edge(before)
		}
		require.LessOrEqual(r, int(it.KeyEnd), before)
		require.Less(r, int(row.Row), int(s.QueryLens[row.Seq])*s.QHeads/s.KVHeads)
		require.Equal(r, blocks(rows[0].Seq), blocks(row.Seq))
	}
}

// Every row of a tile of several parts gets a partial row from each of them, which nobody else
// writes, and the tile is merged once; the workspace holds them all.
func TestPartsAndMerges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, capacity := drawShape(r)
		plan, err := Attend(s, capacity.Resident)
		require.NoError(r, err)
		work, err := readWork(plan.Work, callOf(s))
		require.NoError(r, err)
		require.EqualValues(r, plan.Items, work.All.Count)
		require.Equal(r, work.Space.Len, plan.Workspace)

		type place struct{ seq, row, part uint32 }
		written := map[uint32]place{} // by partial row
		single := map[[2]uint32]bool{}
		for _, it := range listOf(plan.Work, work.All) {
			for i, row := range rowsOf(plan.Work, work, it) {
				if it.Parts == 1 {
					require.Zero(r, it.Part)
					single[[2]uint32{it.Seq, it.Row + uint32(i)}] = true
					continue
				}
				require.Less(r, it.Part, it.Parts)
				at := row.Partial + it.Part*row.Step
				if _, twice := written[at]; twice || int(at) >= work.PartialRows/s.KVHeads {
					require.Fail(r, "a partial row of two items, or none", "%d of %d", at, work.PartialRows/s.KVHeads)
				}
				written[at] = place{row.Seq, row.Row, it.Part}
			}
		}
		merged, parts := 0, 0
		for _, m := range listOf(plan.Work, work.Merges) {
			if m.Rows == 0 {
				require.True(r, s.Fixed)
				continue
			}
			require.Greater(r, m.Parts, uint32(1))
			parts += int(m.Parts)
			for part := range m.Parts {
				for i := range m.Rows {
					want, have := place{m.Seq, m.Row + i, part}, written[m.Base+part*m.Rows+i]
					if have != want || single[[2]uint32{m.Seq, m.Row + i}] {
						require.Equal(r, want, have, "merged")
					}
					merged++
				}
			}
		}
		require.Equal(r, plan.Parts, parts)
		require.Len(r, written, merged, "partial rows that nobody merges")
		if !s.Fixed {
			require.Equal(r, work.PartialRows, merged*s.KVHeads)
		}
	})
}

// The kind of a sequence changes at the borders that the kernels have.
func TestKinds(t *testing.T) {
	for rows, want := range map[int]Kind{1: Vector, 3: Vector, 4: Decode, 5: Decode, 16: Decode, 17: Prefill, 64: Prefill, 65: Prefill} {
		require.Equal(t, want, Cache{Format: f16}.KindOf(rows), "%d rows", rows)
		require.Equal(t, want, Cache{Format: backend.Format{Act: backend.BF16, K: backend.BF16, V: backend.BF16}}.KindOf(rows), "%d rows", rows)
		require.Equal(t, max(want, Decode), Cache{Format: backend.Format{Act: backend.F16, K: backend.Int8, V: backend.Int4}}.KindOf(rows), "%d rows of codes", rows)
	}
	for rows, want := range map[int]Kind{3: Vector, 16: Decode, 64: Prefill, 65: Wide, 1000: Wide} {
		require.Equal(t, want, Cache{Format: f16, Wide: true}.KindOf(rows), "%d rows", rows)
	}
	for rows, want := range map[int]Kind{1: Decode, 16: Decode, 17: Wide, 64: Wide, 1000: Wide} {
		require.Equal(t, want, Cache{Format: f16, Latent: true, Wide: true}.KindOf(rows), "%d rows of latents", rows)
		require.Equal(t, Decode, Cache{Format: f16, Latent: true}.KindOf(rows), "%d rows of latents", rows)
	}
	for rows, want := range map[int]Kind{1: Vector, 4: Vector, 5: Decode, 16: Decode, 17: Decode, 1000: Decode} {
		require.Equal(t, want, Cache{Format: f32}.KindOf(rows), "%d rows", rows)
		require.Equal(t, want, Cache{Format: backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int8}}.KindOf(rows), "%d rows of codes", rows)
	}

	// 1 + 16 + 17 + 129 rows of one head are 1 + 1 + 1 + 3 tiles, or 1 + 1 + 2 + 9 in f32.
	contexts, queries := []uint32{50, 50, 50, 200}, []uint32{1, 16, 17, 129}
	for format, want := range map[backend.Format][Kinds]uint32{f16: {1, 1, 4}, f32: {1, 12, 0}} {
		s := shapeOf(format, 1, 1, contexts, queries)
		plan, err := Attend(s, Capacity{}.Resident)
		require.NoError(t, err)
		work, err := readWork(plan.Work, callOf(s))
		require.NoError(t, err)
		for kind, list := range work.Kinds {
			require.Equal(t, want[kind], list.Count, "kind %d of %v", kind, format.Act)
		}
	}
}

// A context is cut into as many parts as there is room for, and none is short.
func TestSplit(t *testing.T) {
	for _, c := range []struct {
		contexts []uint32
		kvHeads  int
		capacity int
		parts    int // of all that are split
	}{
		{[]uint32{100000}, 1, 1, 0},
		{[]uint32{100000}, 8, 8, 0},
		{[]uint32{8192}, 8, 16, 2},
		{[]uint32{8192}, 1, 7, 7}, // 1216 keys, and 896 in the last
		{[]uint32{8192}, 8, 528, 64},
		{[]uint32{1 << 20}, 1, 1 << 20, 256}, // no more parts than that
		{[]uint32{127}, 1, 100, 0},
		{[]uint32{128}, 1, 100, 0},
		{[]uint32{255}, 1, 100, 0},
		{[]uint32{256}, 1, 100, 2},
		{[]uint32{257}, 1, 100, 2},
		{[]uint32{8192, 100, 100}, 1, 8, 22},       // only the long one
		{[]uint32{2000, 2000, 2000, 30}, 1, 4, 15}, // which fills the device four times
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			queries := make([]uint32, len(c.contexts))
			for i := range queries {
				queries[i] = 1
			}
			plan, err := Attend(shapeOf(f16, 8*c.kvHeads, c.kvHeads, c.contexts, queries), Capacity{Decode: c.capacity}.Resident)
			require.NoError(t, err)
			require.Equal(t, c.parts, plan.Parts)
		})
	}
}

// What the work cannot hold is refused.
func TestTooMuch(t *testing.T) {
	refused := func(what string, s backend.AttendShape) {
		_, err := Attend(s, Capacity{100, 100, 100}.Resident)
		require.ErrorContains(t, err, what)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	refused("rows", shapeOf(f16, 2, 1, []uint32{1}, []uint32{math.MaxUint32}))
	refused("rows", shapeOf(f16, math.MaxInt, 1, []uint32{1}, []uint32{2}))
	refused("too many for one step", shapeOf(f16, 1, 1, []uint32{1, 1}, []uint32{1 << 31, 1 << 31}))
	refused("too many for one step", shapeOf(f32, 1, 1, []uint32{1}, []uint32{math.MaxUint32}))
	s := shapeOf(f16, 2, 2, []uint32{8192}, []uint32{1})
	s.VDim = math.MaxInt / 64
	refused("workspace", s)
	s = shapeOf(f16, math.MaxInt/2, math.MaxInt/2, []uint32{1}, []uint32{3})
	s.Scores = true
	refused("workspace", s)
}

func TestSpace(t *testing.T) {
	for _, c := range []struct {
		tokens, qHeads, rows, vDim int
		mass                       bool
		want                       Space
	}{
		{5, 3, 0, 64, false, Space{}},
		{5, 3, 0, 64, true, Space{PartialLSE: 16, Partial: 16, Len: 16}},
		{5, 3, 7, 64, false, Space{Partial: 8, Len: 8 + 7*64}},
		{4, 4, 8, 80, true, Space{PartialLSE: 16, Partial: 24, Len: 24 + 8*80}},
		{0, 3, 1, 3, true, Space{Partial: 4, Len: 8}},
	} {
		s, ok := spaceOf(c.tokens, c.qHeads, c.rows, c.vDim, c.mass)
		require.True(t, ok)
		require.Equal(t, c.want, s, "%+v", c)
	}
	for _, c := range [][4]int{{math.MaxInt, 2, 0, 1}, {math.MaxInt, 1, 0, 1}, {1, 1, math.MaxInt, 1}, {1, 1, math.MaxInt / 2, 3},
		{math.MaxInt / 2, 1, math.MaxInt / 2, 1}, {1, 1, math.MaxInt/2 + 1, 1}} {
		_, ok := spaceOf(c[0], c[1], c[2], c[3], true)
		require.False(t, ok, "%v", c)
	}
}

// batch64 is a step of 64 sequences of unequal lengths.
func batch64() backend.AttendShape {
	var contexts, queries []uint32
	for i := range uint32(64) {
		contexts, queries = append(contexts, 100+i*i), append(queries, 1)
	}
	return shapeOf(f16, 32, 8, contexts, queries)
}

func TestPlanAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector empties pools")
	}
	s, capacity := batch64(), Capacity{264, 528, 264}
	first, err := Attend(s, capacity.Resident)
	require.NoError(t, err)
	require.Positive(t, first.Parts)
	s.Work = make([]uint32, 0, len(first.Work))
	c := callOf(s)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		again, err := Attend(s, capacity.Resident)
		if err != nil || again.Items != first.Items {
			t.Fatal(err)
		}
		if _, err = readWork(again.Work, c); err != nil {
			t.Fatal(err)
		}
	}))
}

func BenchmarkPlan64(b *testing.B) {
	s, capacity := batch64(), Capacity{264, 528, 264}
	b.ReportAllocs()
	for b.Loop() {
		plan, err := Attend(s, capacity.Resident)
		if err != nil {
			b.Fatal(err)
		}
		s.Work = plan.Work
	}
}

// Items are in the order that sorting their keys gives, few or many of them.
func TestSortKeys(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var sh sharing
		most := rapid.SampledFrom([]uint32{0, 1, 255, 256, 8192, 1 << 20, math.MaxUint32}).Draw(r, "most")
		for i := range rapid.IntRange(0, 300).Draw(r, "items") {
			sh.keys = append(sh.keys, uint64(rapid.Uint32Range(0, most).Draw(r, "key"))<<32|uint64(i))
		}
		want := slices.Sorted(slices.Values(sh.keys))
		sh.sortKeys()
		require.True(r, slices.Equal(want, sh.keys))
	})
}
