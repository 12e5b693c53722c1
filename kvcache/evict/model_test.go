package evict

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawPolicy is a policy with settings that can be used, also ones far above any budget.
func drawPolicy(t *rapid.T) Policy {
	size := func(name string, least int) int {
		return rapid.OneOf(rapid.IntRange(least, 6), rapid.SampledFrom([]int{40, most})).Draw(t, name)
	}
	sinks, recent := size("sinks", 0), size("recent", 0)
	snap := SnapKV{Sinks: sinks, Window: recent, Kernel: rapid.SampledFrom([]int{0, 1, 3, 7, 101, most - 1}).Draw(t, "kernel")}
	return rapid.SampledFrom([]Policy{
		Recency{}, SlidingWindow{Window: max(recent, 1), Sinks: sinks}, H2O{Sinks: sinks, Recent: recent},
		snap, PyramidKV{SnapKV: snap, Beta: rapid.SampledFrom([]int{0, 1, 2, 20, maxBeta}).Draw(t, "beta")},
	}).Draw(t, "policy")
}

// drawLayer is a layer of up to 80 tokens with scores that are often equal and
// sometimes no numbers.
func drawLayer(t *rapid.T) Layer {
	l := Layer{Len: rapid.IntRange(0, 80).Draw(t, "len"), Heads: rapid.IntRange(0, 3).Draw(t, "heads")}
	score := rapid.OneOf(
		rapid.SampledFrom([]float32{0, 1, 1, 2, 3, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32}),
		rapid.Float32Range(0, 4))
	if rapid.Bool().Draw(t, "scored") {
		l.Scores = rapid.SliceOfN(score, l.Heads*l.Len, l.Heads*l.Len).Draw(t, "scores")
	}
	return l
}

// protection is how many first and newest tokens a policy promises to keep.
func protection(p Policy, budget int) (sinks, recent int) {
	switch p := p.(type) {
	case Recency:
		return 0, budget
	case SlidingWindow:
		return p.Sinks, p.Window
	case H2O:
		if p.Recent == 0 {
			return p.Sinks, (budget + 1) / 2
		}
		return p.Sinks, p.Recent
	case SnapKV:
		if p.Window == 0 {
			return p.Sinks, (budget + 3) / 4
		}
		return p.Sinks, p.Window
	case PyramidKV:
		return protection(p.SnapKV, budget)
	}
	panic("unknown policy")
}

// naive keeps the tokens that come first when all are sorted: sinks, recent ones, then
// by score, then the newer.
func naive(p Policy, l Layer, budget int) []int {
	budget = p.Limit(budget)
	sinks, recent := protection(p, budget)
	before := l.Len - min(recent, max(0, budget-sinks)) // tokens that are pooled
	score := make([]float64, l.Len)
	for i := range before {
		half := 0
		switch p := p.(type) {
		case SnapKV:
			half = p.Kernel / 2
		case PyramidKV:
			half = p.Kernel / 2
		case H2O:
		default:
			continue
		}
		for h := 0; h < l.Heads && l.Scores != nil; h++ {
			largest := math.Inf(-1)
			for k := max(0, i-half); k <= min(before-1, i+half); k++ {
				v := float64(l.Scores[h*l.Len+k])
				if v != v {
					v = 0
				}
				largest = max(largest, v)
			}
			score[i] += largest
		}
		if score[i] != score[i] {
			score[i] = 0
		}
	}
	class := func(i int) int {
		switch {
		case i < sinks:
			return 0
		case i >= l.Len-recent:
			return 1
		}
		return 2
	}
	all := make([]int, l.Len)
	for i := range all {
		all[i] = i
	}
	sort.Slice(all, func(x, y int) bool {
		a, b := all[x], all[y]
		switch {
		case class(a) != class(b):
			return class(a) < class(b)
		case class(a) == 0:
			return a < b
		case score[a] != score[b] && class(a) == 2:
			return score[a] > score[b]
		}
		return a > b
	})
	keep := slices.Clone(all[:min(budget, l.Len)])
	slices.Sort(keep)
	return keep
}

// Any policy keeps what it would keep if it sorted all tokens: at most the budget,
// rising, what is protected first.
func TestPoliciesMatchSorting(t *testing.T) {
	var scratch Scratch
	rapid.Check(t, func(t *rapid.T) {
		p, l := drawPolicy(t), drawLayer(t)
		require.NoError(t, p.Validate())
		budget := rapid.IntRange(0, 90).Draw(t, "budget")
		want := naive(p, l, budget)
		got := p.Keep([]int{-7}, l, budget)
		require.Equal(t, -7, got[0], "what dst had stays")
		require.Equal(t, want, append([]int{}, got[1:]...), "%s", p)
		l.Scratch = &scratch
		require.Equal(t, want, append([]int{}, p.Keep(nil, l, budget)...), "with a scratch that was used before")

		require.LessOrEqual(t, len(want), p.Limit(budget))
		require.LessOrEqual(t, p.Limit(budget), budget)
		require.Equal(t, min(l.Len, p.Limit(budget)), len(want), "no token goes for nothing")
		sinks, recent := protection(p, budget)
		if sinks+recent <= budget {
			for i := range l.Len {
				if i < sinks || i >= l.Len-recent {
					require.Contains(t, want, i, "token %d is protected by %s", i, p)
				}
			}
		}
	})
}

// Over a whole history, tokens coming and attention being counted, the budget holds at
// every step and the protected tokens are there.
func TestHistoriesKeepTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		budget := rapid.IntRange(1, 30).Draw(t, "budget")
		var scratch Scratch
		var held []int // positions
		var mass []float32
		for next := range rapid.IntRange(0, 120).Draw(t, "tokens") {
			if limit := p.Limit(budget); len(held) >= limit {
				keep := p.Keep(nil, Layer{Len: len(held), Heads: 1, Scores: mass, Scratch: &scratch}, limit-1)
				require.LessOrEqual(t, len(keep), limit-1)
				for to, from := range keep {
					held[to], mass[to] = held[from], mass[from]
				}
				held, mass = held[:len(keep)], mass[:len(keep)]
			}
			held, mass = append(held, next), append(mass, 0)
			for i := range mass {
				mass[i] += float32((next*31 + held[i]*17) % 11)
			}
			require.LessOrEqual(t, len(held), p.Limit(budget))
			require.True(t, slices.IsSorted(held))
			sinks, _ := protection(p, budget)
			for i := range min(sinks, p.Limit(budget)-1, next) {
				require.Equal(t, i, held[i], "sink %d under %s", i, p)
			}
		}
	})
}
