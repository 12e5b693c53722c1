package evict

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// Select keeps in each layer what the policy keeps of it alone, whether scores come at once or in
// parts, and whatever the lists had before.
func TestSelectIsEachLayersKeep(t *testing.T) {
	var used [][]int
	rapid.Check(t, func(t *rapid.T) {
		p, l := drawPolicy(t), drawLayer(t)
		budget, layers := rapid.IntRange(0, 90).Draw(t, "budget"), rapid.IntRange(1, 4).Draw(t, "layers")
		each := l.Heads * l.Len
		l.Scores = rapid.SliceOfN(rapid.Float32Range(0, 4), layers*each, layers*each).Draw(t, "scores of all")
		if each == 0 || !p.NeedsScores() {
			layers, each = 1, 0
		}
		part := func(from, to int) Layer {
			return Layer{Len: l.Len, Heads: l.Heads, Scores: l.Scores[from*each : to*each]}
		}
		got, err := Select(used[:0], p, l, budget)
		require.NoError(t, err)
		require.Len(t, got, layers)
		for i := range layers {
			require.Equal(t, naive(p, part(i, i+1), budget), append([]int{}, got[i]...), "layer %d under %s", i, p)
		}
		used = got
		if cut := rapid.IntRange(1, layers).Draw(t, "cut"); cut < layers {
			parts, err := Select(nil, p, part(0, cut), budget)
			require.NoError(t, err)
			parts, err = Select(parts, p, part(cut, layers), budget)
			require.NoError(t, err)
			require.True(t, slices.EqualFunc(got, parts, slices.Equal), "%v and %v", got, parts)
		}
	})
}

// wrongly answers what a policy may not.
type wrongly struct {
	Recency
	keep    [][]int // layer by layer
	budgets []int
	limit   int
	calls   *int
}

func (wrongly) NeedsScores() bool { return true }

func (p wrongly) Keep(dst []int, _ Layer, _ int) []int {
	*p.calls++
	return append(dst, p.keep[*p.calls-1]...)
}

func (p wrongly) Budgets(dst []int, _, _ int) []int { return append(dst, p.budgets...) }

func (p wrongly) Limit(int) int { return p.limit }

// What a policy may not answer, and scores of no layers, are errors that name the policy.
func TestWrongAnswersAreFound(t *testing.T) {
	two := Layer{Len: 4, Heads: 1, Scores: make([]float32, 8)}
	for _, keep := range [][][]int{
		{{0, 1, 2}}, {{1, 0}}, {{1, 1}}, {{-1}}, {{4}}, {{math.MaxInt}}, {{0, 1}, {0}}, {{0}, {0, 1}}, {{0}, {4}},
	} {
		_, err := Select(nil, wrongly{keep: keep, calls: new(int)}, two, 2)
		require.ErrorIs(t, err, ErrPolicy{}, "%v", keep)
		require.ErrorContains(t, err, "evict: recency: Keep=")
	}
	_, err := Select([][]int{{0, 1}}, wrongly{keep: [][]int{{0}}, calls: new(int)}, Layer{Len: 4}, 2)
	require.ErrorIs(t, err, ErrPolicy{}, "fewer than of the layers before")
	for _, l := range []Layer{{Len: 3, Heads: 2, Scores: make([]float32, 7)}, {Len: 3, Heads: 2, Scores: make([]float32, 8)},
		{Len: 0, Heads: 2, Scores: make([]float32, 2)}, {Len: 2, Heads: 0, Scores: make([]float32, 2)},
		{Len: math.MaxInt, Heads: math.MaxInt, Scores: make([]float32, 1)}, {Len: -1, Heads: -1, Scores: make([]float32, 1)}} {
		_, err := Select(nil, H2O{}, l, 2)
		require.ErrorContains(t, err, "Scores=")
	}
	for _, budgets := range [][]int{nil, {4}, {4, 3, 2}, {5, 6}, {-1, 2}, {11, 0}, {math.MinInt, math.MinInt}, {math.MaxInt, math.MaxInt}} {
		_, err := Divide([]int{7}, wrongly{budgets: budgets}, 10, 2)
		require.ErrorIs(t, err, ErrPolicy{}, "%v", budgets)
		require.ErrorContains(t, err, "Budgets=")
	}
	_, err = Divide(nil, wrongly{budgets: []int{5, 5}, limit: 6}, 10, 2)
	require.ErrorContains(t, err, "Limit=6")
	got, err := Divide([]int{7}, wrongly{budgets: []int{6, 4}, limit: 4}, 10, 2)
	require.NoError(t, err)
	require.Equal(t, []int{7, 6, 4}, got)
}

// Lists that were used before are used again.
func TestSelectAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	var lists [][]int
	var err error
	l := noisy(500, 6, new(Scratch))
	l.Heads = 2 // three layers
	for _, p := range all {
		choose := func() { lists, err = Select(lists[:0], p, l, 100) }
		choose()
		require.NoError(t, err)
		require.Zero(t, testing.AllocsPerRun(5, choose), "%s", p)
	}
}
