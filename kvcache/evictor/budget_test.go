package evictor

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/stretchr/testify/require"
)

// odd is a policy of the caller's that answers what it may not.
type odd struct {
	evict.Recency
	limit   func(budget int) int
	keep    func(l evict.Layer, budget int) []int
	budgets func(total, layers int) []int
	scores  bool
}

func (p odd) NeedsScores() bool { return p.scores }

func (p odd) Limit(budget int) int {
	if p.limit == nil {
		return budget
	}
	return p.limit(budget)
}

func (p odd) Keep(dst []int, l evict.Layer, budget int) []int {
	if p.keep == nil {
		return p.Recency.Keep(dst, l, budget)
	}
	return append(dst, p.keep(l, budget)...)
}

func (p odd) Budgets(dst []int, total, layers int) []int {
	if p.budgets == nil {
		return p.Recency.Budgets(dst, total, layers)
	}
	return append(dst, p.budgets(total, layers)...)
}

// A policy that answers what it may not is an error, and no part drops anything: also none
// before the one that it answers so for.
func TestRoomRefusesOddPolicies(t *testing.T) {
	sc := newScene(t, device(t), config(), config())
	defer sc.close()
	parts := sc.open()
	rng := rand.New(rand.NewPCG(1, 1))
	sc.feed(rng, 20, parts)
	sc.feed(rng, 1, parts)
	first := func(n int) []int {
		kept := make([]int, n)
		for i := range kept {
			kept[i] = i
		}
		return kept
	}
	calls := 0
	for name, p := range map[string]odd{
		"more than its budget": {keep: func(_ evict.Layer, budget int) []int { return first(budget + 1) }},
		"all":                  {keep: func(l evict.Layer, _ int) []int { return first(l.Len) }},
		"falling":              {keep: func(evict.Layer, int) []int { return []int{3, 2} }},
		"one twice":            {keep: func(evict.Layer, int) []int { return []int{3, 3} }},
		"below the first":      {keep: func(evict.Layer, int) []int { return []int{-1} }},
		"behind the last":      {keep: func(l evict.Layer, _ int) []int { return []int{l.Len} }},
		"layers that differ": {scores: true, keep: func(evict.Layer, int) []int {
			calls++
			return first(calls % 2)
		}},
		"the last part alone": {keep: func(evict.Layer, int) []int {
			calls++
			return first(calls % 2 * 100)
		}},
		"a limit above its budget": {limit: func(budget int) int { return budget + 1 }},
		"few layers":               {budgets: func(total, _ int) []int { return []int{total} }},
		"more than there is": {budgets: func(total, layers int) []int {
			out := make([]int, layers)
			for i := range out {
				out[i] = total
			}
			return out
		}},
		"negative budgets": {budgets: func(_, layers int) []int {
			out := make([]int, layers)
			out[0], out[1] = math.MinInt, math.MinInt
			return out
		}},
	} {
		calls = 1
		e, err := New[buffer](Options{Policy: p, Budget: 10})
		require.NoError(t, err)
		dropped, err := e.EnsureBudget(sc.s, 1, parts...)
		require.ErrorIs(t, err, kvcache.ErrConfig{}, name)
		require.Zero(t, dropped, name)
		for _, part := range parts {
			require.Equal(t, 21, part.Len(), name)
		}
	}
	release(t, parts)
}

// Parts that are no parts are errors, also where there is room, and the others are as they were.
func TestRoomRefusesOddParts(t *testing.T) {
	sc := newScene(t, device(t), config(), config())
	defer sc.close()
	parts, gone := sc.open(), sc.open()
	sc.feed(rand.New(rand.NewPCG(1, 1)), 20, parts)
	release(t, gone)
	_, err := new(Evictor[buffer]).EnsureBudget(sc.s, 1, parts...)
	require.ErrorIs(t, err, kvcache.ErrConfig{}, "not made by New")
	for _, budget := range []int{10, 1000} {
		e, err := New[buffer](Options{Policy: evict.Recency{}, Budget: budget})
		require.NoError(t, err)
		for _, c := range []struct {
			want  error
			parts []*kvcache.Sequence[buffer]
		}{
			{backend.ErrArgument{}, nil},
			{backend.ErrArgument{}, []*kvcache.Sequence[buffer]{parts[0], nil}},
			{backend.ErrArgument{}, []*kvcache.Sequence[buffer]{parts[0], parts[1], parts[0]}},
			{kvcache.ErrReleased, []*kvcache.Sequence[buffer]{parts[0], gone[1]}},
		} {
			dropped, err := e.EnsureBudget(sc.s, 1, c.parts...)
			require.ErrorIs(t, err, c.want)
			require.Regexp(t, "^evictor: (ensure budget|part 1): ", err.Error())
			require.Zero(t, dropped)
		}
		require.NoError(t, sc.steps[0].Reset())
		require.NoError(t, sc.steps[0].Add(parts[0], []uint32{1}))
		_, err = e.EnsureBudget(sc.s, 1, parts...)
		require.ErrorIs(t, err, kvcache.ErrBusy)
		require.NoError(t, sc.steps[0].Reset())
		require.Equal(t, 20, parts[0].Len())
		require.Equal(t, 20, parts[1].Len())
	}
	release(t, parts)
}
