package evict

import "fmt"

// Select appends to dst the tokens that a policy keeps of a sequence's layers, rising. l.Scores
// is [layers, Heads, Len], and there is a list for each of those layers, all of one length; for a
// policy that looks at no scores one list serves all. dst has the lists of the layers before, so
// that scores can come in parts; lists that lie in its memory behind them are used again.
// ErrPolicy if scores are of another number, or for an answer that a policy may not give.
func Select(dst [][]int, p Policy, l Layer, budget int) ([][]int, error) {
	all, layers := l.Scores, 1
	if !p.NeedsScores() {
		all = nil
	}
	if len(all) > 0 {
		if l.Heads < 1 || l.Len < 1 || len(all)%l.Heads != 0 || len(all)/l.Heads%l.Len != 0 {
			return dst, wrong(p, "Scores", len(all), "need %d heads of %d tokens in each layer", l.Heads, l.Len)
		}
		layers = len(all) / l.Heads / l.Len
	}
	for i := range layers {
		l.Scores = all[i*(len(all)/layers):][:len(all)/layers]
		if at := len(dst); at < cap(dst) {
			dst = dst[:at+1]
		} else {
			dst = append(dst, nil)
		}
		kept := p.Keep(dst[len(dst)-1][:0], l, budget)
		dst[len(dst)-1] = kept
		if len(kept) > max(budget, 0) || len(kept) != len(dst[0]) {
			return dst, wrong(p, "Keep", len(kept), "it kept as many tokens of %d under a budget of %d, and %d of the first layer", l.Len, budget, len(dst[0]))
		}
		last := -1
		for _, token := range kept {
			if token <= last || token >= l.Len {
				return dst, wrong(p, "Keep", token, "it kept this token of %d after token %d", l.Len, last)
			}
			last = token
		}
	}
	return dst, nil
}

// Divide appends to dst what a policy gives each layer of a total. ErrPolicy for an answer that it
// may not give, also as the limit under one of the budgets.
func Divide(dst []int, p Policy, total, layers int) ([]int, error) {
	before, left := len(dst), total
	dst = p.Budgets(dst, total, layers)
	if n := len(dst) - before; n != layers {
		return dst, wrong(p, "Budgets", n, "it gave budgets for %d of %d layers", n, layers)
	}
	for _, budget := range dst[before:] {
		if budget < 0 || budget > left {
			return dst, wrong(p, "Budgets", budget, "it gave a layer this where %d of %d tokens are left", left, total)
		}
		if limit := p.Limit(budget); limit > budget {
			return dst, wrong(p, "Limit", limit, "it is above the budget of %d", budget)
		}
		left -= budget
	}
	return dst, nil
}

func wrong(p Policy, field string, value int, why string, args ...any) error {
	return ErrPolicy{Policy: p.String(), Field: field, Value: value, Why: fmt.Sprintf(why, args...)}
}
