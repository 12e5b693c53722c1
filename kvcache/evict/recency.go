package evict

import "fmt"

// Recency keeps the newest tokens: the baseline for other policies.
type Recency struct{}

func (Recency) String() string { return "recency" }

// Validate is nil.
func (Recency) Validate() error { return nil }

// Limit is the budget.
func (Recency) Limit(budget int) int { return max(budget, 0) }

// Keep keeps the newest tokens.
func (Recency) Keep(dst []int, l Layer, budget int) []int { return ends(dst, l.Len, 0, budget) }

// Budgets divides evenly.
func (Recency) Budgets(dst []int, total, layers int) []int { return even(dst, total, layers) }

// NeedsScores is false.
func (Recency) NeedsScores() bool { return false }

// SlidingWindow keeps the first Sinks tokens and the newest Window ones, even when the budget is
// larger (StreamingLLM, arXiv:2309.17453).
type SlidingWindow struct {
	Window int // at least 1
	Sinks  int // the paper: 4
}

func (p SlidingWindow) String() string {
	return fmt.Sprintf("sliding(window=%d,sinks=%d)", p.Window, p.Sinks)
}

// Validate is an ErrPolicy for a window below 1 or negative sinks.
func (p SlidingWindow) Validate() error {
	return check("sliding", setting{"Window", p.Window, 1}, setting{"Sinks", p.Sinks, 0})
}

// Limit is Window + Sinks, or the budget when that is less.
func (p SlidingWindow) Limit(budget int) int {
	return min(max(budget, 0), usable(p.Window)+usable(p.Sinks))
}

// Keep keeps the sinks and the window.
func (p SlidingWindow) Keep(dst []int, l Layer, budget int) []int {
	return ends(dst, l.Len, p.Sinks, p.Limit(budget))
}

// Budgets divides evenly.
func (SlidingWindow) Budgets(dst []int, total, layers int) []int { return even(dst, total, layers) }

// NeedsScores is false.
func (SlidingWindow) NeedsScores() bool { return false }

// ends appends the first sinks of n tokens and the newest others, budget in all.
func ends(dst []int, n, sinks, budget int) []int {
	kept := min(max(n, 0), max(budget, 0))
	sinks = min(usable(sinks), kept)
	dst = run(dst, 0, sinks)
	return run(dst, n-(kept-sinks), n)
}

// run appends the tokens from to to-1.
func run(dst []int, from, to int) []int {
	for i := from; i < to; i++ {
		dst = append(dst, i)
	}
	return dst
}
