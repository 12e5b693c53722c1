package replay

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// published reads a published trace, or skips.
func published(t testing.TB, name ...string) *Trace {
	trace, err := Read(t.Context(), external.Path(t, append([]string{"traces"}, name...)...))
	require.NoError(t, err)
	return trace
}

// skipRace skips what replays a whole trace: the race detector makes that slow, and
// nothing in it is concurrent.
func skipRace(t testing.TB) {
	if race.Enabled {
		t.Skip("replays a whole trace: too slow under the race detector")
	}
}

func mooncake(t testing.TB) *Trace { return published(t, "mooncake", "conversation_trace.jsonl") }

// sweep is the hits of policies at 2, 5, 10 and 25 %.
func sweep(t testing.TB, trace *Trace, policies ...string) map[string][]int {
	var capacities []Capacity
	for _, text := range []string{"2%", "5%", "10%", "25%"} {
		c, err := ParseCapacity(text)
		require.NoError(t, err)
		capacities = append(capacities, c)
	}
	out := map[string][]int{}
	require.NoError(t, trace.Sweep(t.Context(), capacities, policies, Setup{}, func(int) {}, func(r Run) error {
		out[r.Policy] = append(out[r.Policy], r.Hits)
		return nil
	}))
	return out
}

// requireDefault requires that the default has, at every capacity of a sweep, a
// share of the hits of each of the others.
func requireDefault(t testing.TB, share float64, got map[string][]int, others ...string) {
	t.Helper()
	require.NotEmpty(t, got["adaptive"])
	for i, hits := range got["adaptive"] {
		for _, other := range others {
			require.GreaterOrEqual(t, float64(hits), share*float64(got[other][i]), "capacity %d of the sweep: %d hits, %s has %d", i, hits, other, got[other][i])
		}
	}
}

func TestMooncake(t *testing.T) {
	skipRace(t)
	t.Parallel()
	trace := mooncake(t)
	require.Equal(t, []int{12_031, 288_500, 182_790, 105_710}, []int{trace.Requests(), trace.References(), trace.Unique(), trace.InfiniteHits()})
	for _, policy := range []string{"adaptive", Optimum} {
		require.Equal(t, 105_710, unlimited(t, trace, policy), policy)
	}
	got := sweep(t, trace, "adaptive", "lru", "slru", Optimum)
	require.Equal(t, []int{22_865, 56_479, 80_466, 101_978}, got["lru"])
	require.Equal(t, []int{26_589, 59_688, 83_075, 102_197}, got["slru"])
	require.Equal(t, []int{89_980, 105_710, 105_710, 105_710}, got[Optimum])
	requireDefault(t, 1, got, "lru", "slru")
}

func TestAgentic(t *testing.T) {
	skipRace(t)
	t.Parallel()
	trace := published(t, "agentic")
	require.Equal(t, []int{1_110, 1_619_758, 69_005, 64}, []int{trace.Requests(), trace.References(), trace.Unique(), trace.BlockTokens})
	require.Equal(t, trace.InfiniteHits(), unlimited(t, trace, "lru"))
	small, err := ParseCapacity("5%")
	require.NoError(t, err)
	lru := replayed(t, trace, "lru", small.Blocks(trace))
	require.Equal(t, hits(t, trace, newModel(small.Blocks(trace), 0)), lru)
	require.Greater(t, replayed(t, trace, Optimum, small.Blocks(trace)), lru)

	got := sweep(t, trace, "adaptive")
	got["lru"] = []int{282_142, 628_340, 1_057_776, 1_472_272} // known: the trace is a long one
	got["slru"] = []int{284_604, 645_498, 1_079_017, 1_469_430}
	require.Equal(t, got["lru"][1], lru)
	requireDefault(t, 0.99, got, "lru", "slru")
}

// The trace that comes with the program: what replay shows without flags.
func TestSyntheticSweep(t *testing.T) {
	skipRace(t)
	t.Parallel()
	trace, err := Synthetic(t.Context(), DefaultSynthesis)
	require.NoError(t, err)
	got := sweep(t, trace, "adaptive", "lru", "slru", "lfu", Optimum)
	requireDefault(t, 1, got, "lru", "slru")
	delete(got, "adaptive") // its hits may change, as its constants may
	require.Equal(t, map[string][]int{
		"lru":   {232_958, 328_836, 410_066, 456_799},
		"slru":  {243_923, 335_129, 415_734, 457_140},
		"lfu":   {253_837, 299_544, 347_000, 442_160},
		Optimum: {359_861, 436_469, 458_264, 458_264},
	}, got)
}

// The constants of the default policy were chosen by looking at traces. This guards
// the traffic that they were not chosen for: a change that gains on the two traces
// above must not make another policy the better one elsewhere (see also TestAgentic).
// A hundredth is allowed, since the default has to find out what the others take for
// granted. At 2 % there is room for about five prompts or more, but in the last trace,
// for one: in so small a cache segmented LRU can be well ahead, and LRU is the bound.
func TestDefaultElsewhere(t *testing.T) {
	skipRace(t)
	t.Parallel()
	run := func(name string, s Synthesis, others ...string) {
		t.Run(name, func(t *testing.T) {
			trace, err := Synthetic(t.Context(), s)
			require.NoError(t, err)
			requireDefault(t, 0.99, sweep(t, trace, append(others, "adaptive")...), others...)
		})
	}
	run("seed 2", Synthesis{2, 1_500, 100, 60, 6, 10}, "lru", "slru")
	run("mostly scans", Synthesis{1, 600, 100, 60, 6, 60}, "lru", "slru")
	run("no scans", Synthesis{1, 2_000, 100, 60, 4, 0}, "lru", "slru")
	run("few system prompts", Synthesis{1, 1_200, 3, 60, 6, 10}, "lru", "slru")
	run("two turns", Synthesis{1, 1_200, 100, 60, 2, 10}, "lru", "slru")
	run("few prompts", Synthesis{1, 600, 50, 30, 6, 0}, "lru")
}

// The tree and its policies do what the models say, whatever the trace, and nothing
// stays in use.
func TestReplayModels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawTrace(t, 60)
		capacity := rapid.IntRange(1, trace.Unique()).Draw(t, "capacity")
		lru := hits(t, trace, newModel(capacity, 0))
		want := map[string]int{"lru": lru, "priority": lru} // no request has a priority
		if fifth := capacity / 5; fifth > 0 {
			want["slru"] = hits(t, trace, newModel(capacity, fifth))
		}
		for _, policy := range Policies() {
			c, err := newTree(policy, capacity)
			require.NoError(t, err)
			got := hits(t, trace, c)
			if want, known := want[policy]; known {
				require.Equal(t, want, got, policy)
			}
			require.NoError(t, c.prefix.Check())
			require.Zero(t, c.alloc.Held())
			require.Equal(t, capacity, c.alloc.Free()+c.alloc.Cached())
		}
	})
}

func TestReplayProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawTrace(t, 40)
		for _, policy := range append(Policies(), Optimum) {
			require.Equal(t, trace.InfiniteHits(), replayed(t, trace, policy, trace.Unique()), policy)
			capacity := rapid.IntRange(1, trace.Unique()).Draw(t, "capacity")
			require.Equal(t, replayed(t, trace, policy, capacity), replayed(t, trace, policy, capacity), "the same again")
		}
		last := 0
		for capacity := 1; capacity <= trace.Unique(); capacity++ {
			next := replayed(t, trace, "lru", capacity)
			require.GreaterOrEqual(t, next, last, "of LRU a larger cache holds all that a smaller one does")
			last = next
		}
	})
}

func TestReplayLongRequest(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1, 2, 3, 4, 5}, {9}, {1, 2, 3, 4, 5}})
	for _, policy := range append(Policies(), Optimum) {
		require.Equal(t, 2, replayed(t, trace, policy, 3), "%s: what did not fit is left out, and 9 evicted the end of the rest", policy)
	}
	require.Equal(t, 5, replayed(t, trace, "lru", math.MaxInt32), "a capacity beyond the trace costs no memory")
}

func TestReplayAllocates(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	trace, err := Synthetic(t.Context(), Synthesis{Requests: 400, SystemPrompts: 5, Conversations: 10, Turns: 4, ScanPercent: 10})
	require.NoError(t, err)
	o := newOptimum(trace, trace.Unique()/10)
	i := 0
	for ; i < 200; i++ {
		_, err := o.request(trace.Path(i))
		require.NoError(t, err)
	}
	o.queue = append(make(maxHeap, 0, trace.References()), o.queue...)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = o.request(trace.Path(i))
		i++
	}))
}

func TestReplayRefuses(t *testing.T) {
	trace := traceOf(t, [][]uint64{{1}})
	for _, policy := range []string{"", "mru", "Belady"} {
		_, err := trace.Replay(t.Context(), policy, Capacity{}, Setup{}, func(int) {})
		require.ErrorIs(t, err, ErrSetting{}, policy)
	}
}

func TestSweepEnds(t *testing.T) {
	trace, err := Synthetic(t.Context(), Synthesis{Requests: 2 * checkEvery, SystemPrompts: 1, Conversations: 1, Turns: 1})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	err = trace.Sweep(ctx, []Capacity{{}}, []string{"lru", "slru"}, Setup{}, func(int) { steps++ }, func(Run) error {
		cancel()
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 3, steps, "the second run stops where it looks at the context")
	full := errors.New("disk full")
	require.ErrorIs(t, trace.Sweep(t.Context(), []Capacity{{}}, []string{"lru"}, Setup{}, func(int) {}, func(Run) error { return full }), full)
}

func BenchmarkReplayMooncake(b *testing.B) {
	trace := mooncake(b)
	for _, policy := range append(Compared(), Optimum) {
		b.Run(policy, func(b *testing.B) {
			for b.Loop() {
				_, err := trace.Replay(b.Context(), policy, Capacity{percent: 5}, Setup{}, func(int) {})
				require.NoError(b, err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*trace.References()), "ns/ref")
		})
	}
}

func BenchmarkReadMooncake(b *testing.B) {
	for b.Loop() {
		mooncake(b)
	}
}
