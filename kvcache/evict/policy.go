// Package evict decides which tokens of a cache stay when there is no room for all of them. A
// Policy is a pure function of what is known about a layer's tokens, and Select applies it to the
// layers of a sequence. Neither knows a cache, block or device: the result of Select is what
// kvcache.Sequence.Retain takes. kvcache/evictor joins the two, and kvcache/quant.CacheManager
// applies policies to the tokens that it holds.
//
// Every policy keeps the newest tokens, whose attention scores are not known yet. All but Recency
// also keep the first Sinks tokens, which get much attention whatever they are (attention sinks);
// Sinks is 0 unless it is set. When the budget is smaller than that, sinks come first, then the
// newest tokens. A budget of 0 keeps nothing.
package evict

import "fmt"

// Policy decides which tokens stay. The policies of this package are values, safe for concurrent
// use.
type Policy interface {
	// String names the policy with its settings: "h2o(sinks=4,recent=64)".
	String() string
	// Validate is an ErrPolicy when a setting is not valid. The other methods replace such a
	// setting by the nearest valid one.
	Validate() error
	// Limit is the most tokens that Keep leaves of a layer under a budget.
	Limit(budget int) int
	// Keep appends the numbers of the tokens that stay to dst, in rising order, at most
	// Limit(budget) of them. It allocates nothing when dst has room and l.Scratch was used for a
	// layer of that length before.
	Keep(dst []int, l Layer, budget int) []int
	// Budgets appends the budget of each layer to dst, first layer first. Their sum is total.
	Budgets(dst []int, total, layers int) []int
	// NeedsScores reports whether Keep reads scores.
	NeedsScores() bool
}

// Layer is what a policy knows about a layer's tokens, which are numbered in the order in which
// they were appended, the oldest 0.
type Layer struct {
	Len int
	// Scores is [Heads, Len]: the attention scores of each token. The caller chooses whose queries
	// they are from: H2O adds up those of all steps, SnapKV those of the last tokens of the prompt.
	// NaN counts as 0; a list of another length than Heads*Len counts as all 0.
	Scores []float32
	Heads  int
	// Scratch is memory that Keep may use; nil: Keep allocates.
	Scratch *Scratch
}

// Scratch is memory that calls of Keep reuse. The zero value is ready; it may be used by one
// goroutine at a time.
type Scratch struct {
	total []float64
	order []int
}

// ErrPolicy is a setting of a policy that cannot be used, or an answer that it may not give.
// errors.Is(err, ErrPolicy{}) matches any.
type ErrPolicy struct {
	Policy string // "h2o"
	Field  string // the setting, or the method that answered
	Value  int
	Why    string // what it accepts
}

func (e ErrPolicy) Error() string {
	return fmt.Sprintf("evict: %s: %s=%d: %s", e.Policy, e.Field, e.Value, e.Why)
}

// Is matches the same error and the zero value.
func (e ErrPolicy) Is(target error) bool {
	t, ok := target.(ErrPolicy)
	return ok && (t == e || t == ErrPolicy{})
}

// setting is a field of a policy, with the least that it may be.
type setting struct {
	field        string
	value, least int
}

// check is an ErrPolicy for the first setting that is too small or too large.
func check(policy string, settings ...setting) error {
	for _, s := range settings {
		if s.value < s.least || s.value > most {
			return ErrPolicy{Policy: policy, Field: s.field, Value: s.value, Why: fmt.Sprintf("need %d to %d", s.least, most)}
		}
	}
	return nil
}

// most is more than any setting needs: sums and products of a few stay far from
// overflow.
const most = 1 << 30

// usable is a setting as check accepts it.
func usable(value int) int { return min(max(value, 0), most) }
