package replay

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawGrouped draws a trace of prompts that are computed in one step or in several, and that fill their last block or
// do not.
func drawGrouped(t *rapid.T) *Trace {
	block := rapid.SampledFrom([]uint64{0, 0, 0, 0, 1})
	trace := traceOf(t, rapid.SliceOfN(rapid.SliceOfN(block, 1, 3*piece), 1, 30).Draw(t, "paths"))
	for i := range trace.requests {
		trace.requests[i].full -= rapid.IntRange(0, 1).Draw(t, "not full")
	}
	return trace
}

func drawParts(t *rapid.T) Parts {
	p := Parts{
		Window:  rapid.IntRange(1, 160).Draw(t, "window"),
		Windows: rapid.IntRange(0, 2).Draw(t, "windows"),
		Every:   rapid.IntRange(0, 4).Draw(t, "every"),
		Share:   rapid.SampledFrom([]int{0, 25, 75, 100}).Draw(t, "share"),
	}
	p.States = rapid.IntRange(1-min(p.Windows, 1), 2).Draw(t, "states")
	return p
}

// What a replay with parts finds is what the model says, and nothing stays in use.
func TestGroupedModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace, p := drawGrouped(t), drawParts(t)
		blocks := rapid.IntRange(1, p.room(trace)).Draw(t, "blocks")
		g, err := newGrouped("lru", trace, p, blocks)
		require.NoError(t, err)
		m := newGroupModel(trace, p, blocks)
		for i := range trace.Requests() {
			want, _ := m.request(trace.Path(i))
			got, err := g.request(trace.Path(i))
			require.NoError(t, err)
			require.Equal(t, []int{want, m.full}, []int{got, g.full}, "request %d", i)
			require.NoError(t, g.cache.Check())
			require.Zero(t, g.pages.Held())
			require.Equal(t, []int{m.free, m.lru.Len()}, []int{g.pages.Free(), g.cache.Entries().Cached()}, "request %d", i)
		}
	})
}

// Four prompts; a block has 16 tokens, and a query at the beginning of one sees the two blocks before it:
//
//	A  1 2 3 4 5 6
//	B  1 2 3 4 7
//	C  1 2 3 4 5 6 8
//	D  1 2 3 4 5 6 8
//
// Full attention finds 4 blocks for B, 6 for C and 7 for D. With all windows so do they. With those at ends, 3 and 4
// are gone when B comes (A keeps 5 and 6), and shorter beginnings need 1, 2 or 3: B finds nothing. C finds 5 and 6, D 6
// and 8. With those that are read at every fourth block, A keeps 3 and 4 as well.
func TestGroupedByHand(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 7}, {1, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 4, 5, 6, 8}})
	for every, hits := range map[int]int{1: 17, 2: 17, 4: 17, 8: 13, 0: 13} {
		for name, p := range map[string]Parts{"window": {Window: 33, Windows: 2}, "states": {States: 2}, "both": {Window: 33, Windows: 1, States: 1}} {
			p.Every, p.Share = every, 25
			r, err := trace.Replay(t.Context(), "lru", Capacity{}, Setup{Parts: p}, func(int) {})
			require.NoError(t, err)
			require.Equal(t, []int{hits, 17}, []int{r.Hits, r.Full}, "%s, %d", name, every)
		}
	}
}

// Of the same, with what is kept at ends. A has at once 6 blocks of full attention and, as it is computed in one step,
// 6 of the window; B, which finds nothing, 5 and 5; C 7 and 2+1; D 7 and 2. After A there are 6 blocks of full
// attention, and 5 and 6 of the window; B adds 7, and of the window 3 and 4, which are read where it leaves what is known, and
// 7; C adds 8 in both. A state is kept after 6, 4, 7 and 8, and D computes nothing.
func TestGroupedUses(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 7}, {1, 2, 3, 4, 5, 6, 8}, {1, 2, 3, 4, 5, 6, 8}})
	full := Use{Amount{25. / 4, 7}, Amount{29. / 4, 8}}
	window, states := Use{Amount{16. / 4, 6}, Amount{19. / 4, 6}}, Use{Amount{3, 3}, Amount{3 * 12. / 4, 12}}
	piecewise := window // B has a step that ends after 4, where its state stays, and never holds more of the window
	piecewise.Held.Mean = 15. / 4
	for want, p := range map[[kinds]Use]Parts{
		{full, window, {}}:        {Window: 33, Windows: 1},
		{full, {}, states}:        {States: 3},
		{full, piecewise, states}: {Window: 33, Windows: 1, States: 3},
	} {
		r, err := trace.Replay(t.Context(), "lru", Capacity{}, Setup{Parts: p}, func(int) {})
		require.NoError(t, err)
		require.Equal(t, want, r.Uses)
	}
}

// What is read after the last block that a prompt fills stays, since what follows there differs from prompt to prompt.
func TestGroupedEnds(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1, 2, 3}, {1, 2, 4}})
	p := Parts{Window: 17, Windows: 1}
	for full, want := range map[int]int{3: 0, 2: 2} {
		trace.requests[0].full = full
		r, err := trace.Replay(t.Context(), "lru", Capacity{}, Setup{Parts: p}, func(int) {})
		require.NoError(t, err)
		require.Equal(t, want, r.Hits, "%d are full", full)
	}
}

// Six blocks, one of each part for 1 and 2. 3 and 4 need four, two of which are free. Where windows may take nothing
// theirs of 1 and 2 go, and nothing of these can be used; else 2 goes from both parts, and 1 is found.
func TestGroupedShare(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1, 2}, {3, 4}, {1, 2}})
	for share, want := range map[int][]int{0: {0, 2}, 100: {1, 1}} {
		p := Parts{Window: 17, Windows: 1, Every: 1, Share: share}
		r, err := trace.Replay(t.Context(), "lru", Capacity{blocks: 6}, Setup{Parts: p}, func(int) {})
		require.NoError(t, err)
		require.Equal(t, want, []int{r.Hits, r.Full}, "%d%%", share)
	}
}

func TestGroupedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace, p := drawGrouped(t), drawParts(t)
		for _, policy := range Policies() {
			c := Capacity{blocks: rapid.IntRange(1, p.room(trace)).Draw(t, "blocks")}
			run := func(c Capacity, p Parts) Run {
				r, err := trace.Replay(t.Context(), policy, c, Setup{Parts: p}, func(int) {})
				require.NoError(t, err)
				r.Seconds = 0
				return r
			}
			r := run(c, p)
			require.LessOrEqual(t, r.Hits, r.Full)
			require.LessOrEqual(t, r.Full, trace.InfiniteHits())
			require.Equal(t, r, run(c, p), "the same again")
			require.Equal(t, trace.InfiniteHits(), run(Capacity{}, p).Full, "unlimited")
			p.Every = 1
			require.Equal(t, trace.InfiniteHits(), run(Capacity{}, p).Hits, "unlimited, and all is kept")
		}
	})
}

// A window of 4,096 tokens on Mooncake's conversations.
func TestGroupedMooncake(t *testing.T) {
	skipRace(t)
	t.Parallel()
	trace := mooncake(t)
	require.Equal(t, 12_009, partial(trace), "prompts whose last block is not full")
	got := map[string][]int{}
	for _, retain := range []string{"all", "32", "ends"} {
		every, err := ParseRetention(retain)
		require.NoError(t, err)
		p := Parts{Window: 4096, Windows: 6, Every: every, Share: 75}
		r, err := trace.Replay(t.Context(), "lru", Capacity{percent: 10}, Setup{Parts: p}, func(int) {})
		require.NoError(t, err)
		require.Equal(t, 127_953, r.Blocks)
		got[retain] = []int{r.Hits, r.Full}
	}
	require.Equal(t, map[string][]int{"all": {78_331, 95_679}, "32": {94_739, 97_411}, "ends": {97_760, 101_596}}, got)
}

func partial(trace *Trace) (n int) {
	for i := range trace.Requests() {
		n += len(trace.Path(i)) - trace.Full(i)
	}
	return n
}
