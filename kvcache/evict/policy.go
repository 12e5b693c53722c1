// Package evict decides which tokens of a cache stay when there is no room for all of
// them. A Policy is a pure function of what is known about a layer's tokens, and Select one of
// the layers of a sequence: they know no cache, no block and no device. What Select returns is what
// kvcache.Sequence.Keep takes; kvcache/evictor brings the two together, and
// kvcache/quant.CacheManager applies policies to what it holds.
//
// Every policy protects the newest tokens, on which no attention could be counted yet, and
// all but Recency the first Sinks ones, to which attention flows whatever they say; Sinks
// is 0 unless it is set. Under a
// budget below what is protected, sinks come first, then the newest. A budget of 0
// keeps nothing.
package evict

import "fmt"

// Policy says which tokens stay. The policies of this package are values, safe for
// concurrent use.
type Policy interface {
	// String names the policy with its settings: "h2o(sinks=4,recent=64)".
	String() string
	// Validate is an ErrPolicy if a setting cannot be used. The other methods
	// take such a setting for the nearest one that can.
	Validate() error
	// Limit is the most tokens that Keep leaves of a layer under a budget.
	Limit(budget int) int
	// Keep appends to dst the tokens that stay, rising, at most Limit(budget) of them.
	// It allocates nothing when dst has room and l.Scratch was used for a layer as
	// long before.
	Keep(dst []int, l Layer, budget int) []int
	// Budgets appends to dst what each layer may have of a total, first layer first. The
	// sum is the total.
	Budgets(dst []int, total, layers int) []int
	// NeedsScores reports whether Keep looks at scores.
	NeedsScores() bool
}

// Layer is what a policy is told about a layer's tokens, which are numbered from 0, the
// oldest, in the order in which they were appended.
type Layer struct {
	Len int
	// Scores is [Heads, Len]: the attention mass that each token was given. Which
	// queries count is the caller's choice: H2O adds up those of all steps, SnapKV's are
	// the last ones of the prompt. NaN counts as 0, and of none, or of another
	// number than Heads*Len, all are 0.
	Scores []float32
	Heads  int
	// Scratch is memory to work in; nil: Keep allocates.
	Scratch *Scratch
}

// Scratch is memory that Keep uses again. The zero value is ready; it may be used by one
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
