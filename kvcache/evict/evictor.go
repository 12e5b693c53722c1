package evict

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// Options of an Evictor.
type Options struct {
	Policy Policy
	// Budget is the most tokens that a layer has, on average over the layers.
	Budget int
	// Slack is how many tokens more are dropped than must be, so that not every step has
	// to drop some.
	Slack int
	// Reposition turns the keys of the tokens that stay to positions 0 and on; see
	// kvcache.KeepOptions.
	Reposition bool
	// FreshScores sets scores to 0 when tokens were dropped, for a policy that looks at the
	// queries since then (SnapKV) and not at all of them (H2O).
	FreshScores bool
}

// Evictor keeps sequences within a budget by a policy. It may be used by one goroutine
// at a time, for any number of sequences.
type Evictor[B backend.Buffer] struct {
	Options
	budgets []int
	lists   [][]int // tokens that stay, of parts that drop some
	trims   []trim
	scores  []float32
	scratch Scratch
}

// New makes an Evictor. A policy or a number that cannot be used is an ErrPolicy or a
// kvcache.ErrConfig.
func New[B backend.Buffer](o Options) (*Evictor[B], error) {
	if o.Policy == nil {
		return nil, kvcache.ErrConfig{Name: "Policy", Value: "nil", Why: "accepts the policies of package evict"}
	}
	if err := o.Policy.Validate(); err != nil {
		return nil, err
	}
	if o.Budget < 1 || o.Budget > most || o.Slack < 0 || o.Slack >= o.Budget {
		return nil, kvcache.ErrConfig{Name: "Budget", Value: fmt.Sprintf("%d, Slack %d", o.Budget, o.Slack), Why: "need a budget of at least 1, and less slack than that"}
	}
	return &Evictor[B]{Options: o}, nil
}
