package replay

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// mostHits tries every way to evict: blocks outside of the path that has to be
// stored, children before their parents.
func mostHits(trace *Trace, parents []uint32, i int, stored map[uint32]bool, capacity int) int {
	if i == trace.Requests() {
		return 0
	}
	path := trace.Path(i)
	hits := 0
	for hits < len(path) && stored[path[hits]] {
		hits++
	}
	kept := min(len(path), capacity)
	excess := len(stored) - hits + kept - capacity
	return hits + mostWithout(trace, parents, i, stored, capacity, path[:kept], excess)
}

func mostWithout(trace *Trace, parents []uint32, i int, stored map[uint32]bool, capacity int, path []uint32, excess int) int {
	if excess <= 0 {
		after := maps.Clone(stored)
		for _, b := range path {
			after[b] = true
		}
		return mostHits(trace, parents, i+1, after, capacity)
	}
	best := -1
	for _, b := range slices.Sorted(maps.Keys(stored)) {
		leaf := !slices.Contains(path, b)
		for other := range stored {
			leaf = leaf && parents[other] != b
		}
		if leaf {
			delete(stored, b)
			best = max(best, mostWithout(trace, parents, i, stored, capacity, path, excess-1))
			stored[b] = true
		}
	}
	return best
}

func TestOptimumIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SliceOfN(rapid.Uint64Range(0, 2), 1, 3)
		trace := traceOf(t, rapid.SliceOfN(path, 1, 7).Draw(t, "paths"))
		parents := make([]uint32, trace.Unique())
		for i := range trace.Requests() {
			parent := uint32(noParent)
			for _, b := range trace.Path(i) {
				parents[b], parent = parent, b
			}
		}
		capacity := rapid.IntRange(1, 5).Draw(t, "capacity")
		most := mostHits(trace, parents, 0, map[uint32]bool{}, capacity)
		require.Equal(t, most, hits(t, trace, newOptimum(trace, capacity)))
	})
}

func TestOptimumIsAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trace := drawTrace(t, 40)
		capacity := rapid.IntRange(1, trace.Unique()).Draw(t, "capacity")
		best := hits(t, trace, newOptimum(trace, capacity))
		require.LessOrEqual(t, best, trace.InfiniteHits())
		for _, policy := range Policies() {
			require.LessOrEqual(t, replayed(t, trace, policy, capacity), best, policy)
		}
	})
}

func TestMaxHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h maxHeap
	var sorted []uint64
	for range 1000 {
		if len(h) > 0 && random.IntN(3) == 0 {
			slices.Sort(sorted)
			require.Equal(t, sorted[len(sorted)-1], h.pop())
			sorted = sorted[:len(sorted)-1]
			continue
		}
		key := random.Uint64N(50)
		h.push(key)
		sorted = append(sorted, key)
	}
	require.Len(t, h, len(sorted))
}
