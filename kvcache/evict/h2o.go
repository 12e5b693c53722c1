package evict

import "fmt"

// H2O keeps the tokens with the highest attention scores so far (heavy hitters: arXiv:2306.14048),
// beside the sinks and the newest tokens. Scores are summed over the heads, because all heads of a
// layer keep the same tokens. Of tokens with equal scores the newer stays.
type H2O struct {
	Sinks  int // the paper: 0
	Recent int // newest tokens, which always stay; 0: half of the budget, as in the paper
}

func (p H2O) String() string {
	if p.Recent == 0 {
		return fmt.Sprintf("h2o(sinks=%d,recent=half)", p.Sinks)
	}
	return fmt.Sprintf("h2o(sinks=%d,recent=%d)", p.Sinks, p.Recent)
}

// Validate is an ErrPolicy for negative settings.
func (p H2O) Validate() error {
	return check("h2o", setting{"Sinks", p.Sinks, 0}, setting{"Recent", p.Recent, 0})
}

// Limit is the budget.
func (H2O) Limit(budget int) int { return max(budget, 0) }

// Keep keeps sinks, the newest tokens and heavy hitters.
func (p H2O) Keep(dst []int, l Layer, budget int) []int {
	recent := usable(p.Recent)
	if recent == 0 {
		recent = (max(budget, 0) + 1) / 2
	}
	return l.keep(dst, p.Sinks, recent, 1, budget)
}

// Budgets divides evenly.
func (H2O) Budgets(dst []int, total, layers int) []int { return even(dst, total, layers) }

// NeedsScores is true.
func (H2O) NeedsScores() bool { return true }

// keep appends the sinks, the best of the tokens in the middle by their scores pooled over
// kernel tokens, and the newest ones, budget in all.
func (l Layer) keep(dst []int, sinks, recent, kernel, budget int) []int {
	n := max(l.Len, 0)
	budget = max(budget, 0)
	if n <= budget {
		return run(dst, 0, n)
	}
	sinks = min(usable(sinks), budget)
	recent = min(recent, budget-sinks)
	if sinks+recent == budget {
		return ends(dst, n, sinks, budget)
	}
	s := l.Scratch
	if s == nil {
		s = new(Scratch)
	}
	dst = run(dst, 0, sinks)
	scores := s.totals(l, n-recent, kernel)
	dst = s.best(dst, scores[sinks:], sinks, budget-sinks-recent)
	return run(dst, n-recent, n)
}
