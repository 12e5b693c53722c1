package evict

import "fmt"

// Select appends the tokens that a policy keeps of each of a sequence's layers to dst, in rising
// order. l.Scores is [layers, Heads, Len]; all layers keep equally many tokens. For a policy that
// reads no scores there is one list for all layers. dst has the lists of earlier layers, so that
// scores can be passed in parts; lists in its unused memory are reused. ErrPolicy when scores have
// another length, or the policy returns an invalid answer.
func Select(dst [][]int, p Policy, l Layer, budget int) ([][]int, error) {
	all, layers := l.Scores, 1
	if p == nil {
		return dst, errNoPolicy
	}
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

// Divide appends the budgets that a policy gives the layers of a total to dst. ErrPolicy when the
// policy returns an invalid answer, from Budgets or from Limit of one of the budgets.
func Divide(dst []int, p Policy, total, layers int) ([]int, error) {
	if p == nil {
		return dst, errNoPolicy
	}
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

var errNoPolicy = ErrPolicy{Policy: "nil", Field: "Policy", Why: "need a policy"}

func wrong(p Policy, field string, value int, why string, args ...any) error {
	return ErrPolicy{Policy: p.String(), Field: field, Value: value, Why: fmt.Sprintf(why, args...)}
}
