package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// sharedStep is a decode step of sequences whose first tokens lie in the same blocks, and
// whose others in blocks of their own.
func sharedStep(seqs, shared, own, group, kvHeads int) backend.AttendShape {
	context := shared + own
	stride := (context + 15) / 16
	var contexts, queries, table []uint32
	for seq := range seqs {
		contexts, queries = append(contexts, uint32(context)), append(queries, 1)
		for i := range stride {
			id := i
			if i >= shared/16 {
				id += (seq + 1) * 100000
			}
			table = append(table, uint32(id))
		}
	}
	s := shapeOf(f16, group*kvHeads, kvHeads, contexts, queries)
	s.KDim, s.VDim, s.Table, s.TableStride = 128, 128, table, stride
	return s
}

// keyReads is how many keys the items of a plan read, for one KV head.
func keyReads(t testing.TB, s backend.AttendShape, capacity Capacity) (keys int, work Work) {
	plan, err := Attend(s, capacity.Resident)
	require.NoError(t, err)
	work, err = readWork(plan.Work, callOf(s))
	require.NoError(t, err)
	for _, it := range listOf(plan.Work, work.All) {
		keys += int(it.KeyEnd - it.Key)
	}
	return keys, work
}

// A shared prefix is read once for as many rows as a tile has, where that saves enough.
func TestSharedIsReadOnce(t *testing.T) {
	capacity := Capacity{264, 396, 264}
	for _, c := range []struct {
		seqs, shared, own, group, kvHeads int
		reads                             int // of shared keys
	}{
		{64, 8192, 128, 8, 8, 8},   // 512 rows are 8 tiles
		{64, 8192, 128, 4, 8, 4},   // 256 are 4
		{8, 8192, 128, 8, 8, 1},    // 64 are one
		{2, 8192, 128, 8, 8, 1},    // 16 are one of decode
		{2, 1024, 128, 8, 8, 2},    // saves 4 MB
		{2, 2048, 128, 8, 8, 2},    // saves 8 MB, and writes partial rows
		{2, 2176, 128, 8, 8, 1},    // saves more
		{64, 112, 5, 8, 8, 64},     // too few keys
		{64, 128, 5, 8, 8, 8},      // enough of them
		{1, 8192, 128, 8, 8, 1},    // nobody to share with
		{64, 8192, 128, 64, 8, 64}, // a tile each
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			s := sharedStep(c.seqs, c.shared, c.own, c.group, c.kvHeads)
			keys, work := keyReads(t, s, capacity)
			require.Equal(t, c.reads*c.shared+c.seqs*c.own, keys)
			if c.reads < c.seqs {
				require.EqualValues(t, c.seqs*c.group, work.Shared.Count)
				require.EqualValues(t, c.seqs, work.Merges.Count)
			} else {
				require.Zero(t, work.Shared.Count)
			}
			s.Table = nil
			keys, work = keyReads(t, s, capacity)
			require.Equal(t, c.seqs*(c.shared+c.own), keys)
			require.Zero(t, work.Shared.Count)
		})
	}
}

// What groups share beyond what all do is read once for each group; a sequence in between has
// no part in it.
func TestSharedNests(t *testing.T) {
	s := sharedStep(9, 1024, 1024, 4, 8)
	s.MinShared = 16
	for seq := range 8 { // two groups of four share 512 tokens more
		for i := 64; i < 96; i++ {
			s.Table[seq*s.TableStride+i] = uint32(5000*(1+seq/4) + i)
		}
	}
	plan, err := Attend(s, Capacity{264, 396, 264}.Resident)
	require.NoError(t, err)
	work, err := readWork(plan.Work, callOf(s))
	require.NoError(t, err)
	require.EqualValues(t, (9+4+4)*4, work.Shared.Count)
	seqs := map[[2]uint32][]uint32{} // by keys
	for _, it := range listOf(plan.Work, work.All) {
		if it.Seq != abi.ManySeqs {
			continue
		}
		for _, row := range rowsOf(plan.Work, work, it) {
			if row.Row == 0 {
				key := [2]uint32{it.Key, it.KeyEnd}
				seqs[key] = append(seqs[key], row.Seq)
			}
		}
	}
	for key, of := range seqs {
		slices.Sort(of)
		want := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 8}
		if key[0] >= 1024 {
			want = want[:8]
		}
		require.Equal(t, want, of, "keys %v", key)
	}
}

// Forks of a trunk, each a block after the other, nest without end, and groups do not.
func TestSharedNestsSoDeep(t *testing.T) {
	const n = 256
	s := sharedStep(n, 16*n, 16, 4, 8)
	for i := range s.ContextLens {
		s.ContextLens[i] = uint32(16*(i+1) + 1)
	}
	plan, err := Attend(s, Capacity{264, 396, 264}.Resident)
	require.NoError(t, err)
	work, err := readWork(plan.Work, callOf(s))
	require.NoError(t, err)
	require.Positive(t, work.Shared.Count)
	require.LessOrEqual(t, work.Shared.Count, uint32(maxNested*n*4))
}

// The launches of a plan of fixed size, and its lengths, do not depend on contexts and tables.
func TestFixed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, capacity := drawShape(r)
		s.Fixed = true
		sizes := func() (Work, int, int) {
			plan, err := Attend(s, capacity.Resident)
			require.NoError(r, err)
			work, err := readWork(plan.Work, callOf(s))
			require.NoError(r, err)
			return work, len(plan.Work), plan.Workspace
		}
		work, words, space := sizes()
		s.ContextLens = slices.Clone(s.ContextLens)
		for i := range s.ContextLens {
			s.ContextLens[i] = rapid.Uint32Range(0, 2000).Draw(r, "another context")
		}
		if s.Table != nil {
			s.Table = drawTables(r, len(s.ContextLens), s.TableStride)
		}
		again, wordsAgain, spaceAgain := sizes()
		require.Equal(r, work, again)
		require.Equal(r, words, wordsAgain)
		require.Equal(r, space, spaceAgain)
	})
}

func TestAlike(t *testing.T) {
	a := make([]uint32, 200)
	for n := range len(a) + 1 {
		b := slices.Clone(a)
		if n < len(b) {
			b[n] = 7
		}
		require.Equal(t, n, alike(a, b))
	}
}

func TestSharedPlanAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector empties pools")
	}
	s, capacity := sharedStep(64, 2048, 128, 4, 8), Capacity{264, 396, 264}
	first, err := Attend(s, capacity.Resident)
	require.NoError(t, err)
	s.Work = first.Work
	require.Zero(t, testing.AllocsPerRun(50, func() {
		if _, err := Attend(s, capacity.Resident); err != nil {
			t.Fatal(err)
		}
	}))
}

// The time to plan 64 sequences of 8k tokens that share most of them, none, and all but the
// last block.
func BenchmarkPlanShared64(b *testing.B) {
	for _, shared := range []int{8192, 0, 8304} {
		b.Run(fmt.Sprint("shared=", shared), func(b *testing.B) {
			s, capacity := sharedStep(64, shared, 8320-shared, 4, 8), Capacity{264, 396, 264}
			b.ReportAllocs()
			for b.Loop() {
				plan, err := Attend(s, capacity.Resident)
				if err != nil {
					b.Fatal(err)
				}
				s.Work = plan.Work
			}
		})
	}
}
