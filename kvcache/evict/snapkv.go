package evict

import "fmt"

// SnapKV keeps the tokens that the last queries of the prompt, its observation window, attend to,
// and their neighbours: a token's score is the largest among the Kernel tokens around it
// (arXiv:2404.14469). Scores are pooled for each head. Unlike in the paper they are then summed
// over the heads, because all heads of a layer keep the same tokens. The window and the sinks
// always stay.
type SnapKV struct {
	Sinks  int // the paper: 0
	Window int // tokens of the observation window; 0: a quarter of the budget; the paper: 16 to 64
	Kernel int // odd; 0: 1, no pooling; the paper: 5 to 13
}

func (p SnapKV) String() string {
	return fmt.Sprintf("snapkv(sinks=%d,window=%d,kernel=%d)", p.Sinks, p.Window, p.Kernel)
}

// Validate is an ErrPolicy for negative settings and an even kernel.
func (p SnapKV) Validate() error { return p.validate("snapkv") }

func (p SnapKV) validate(policy string) error {
	if p.Kernel > 0 && p.Kernel%2 == 0 {
		return ErrPolicy{Policy: policy, Field: "Kernel", Value: p.Kernel, Why: "need an odd number, for as many neighbours on both sides"}
	}
	return check(policy, setting{"Sinks", p.Sinks, 0}, setting{"Window", p.Window, 0}, setting{"Kernel", p.Kernel, 0})
}

// Limit is the budget.
func (SnapKV) Limit(budget int) int { return max(budget, 0) }

// Keep keeps sinks, the observation window and what it looks at.
func (p SnapKV) Keep(dst []int, l Layer, budget int) []int {
	window := usable(p.Window)
	if window == 0 {
		window = (max(budget, 0) + 3) / 4
	}
	return l.keep(dst, p.Sinks, window, p.Kernel, budget)
}

// Budgets divides evenly.
func (SnapKV) Budgets(dst []int, total, layers int) []int { return even(dst, total, layers) }

// NeedsScores is true.
func (SnapKV) NeedsScores() bool { return true }
