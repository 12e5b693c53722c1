// Package evictor keeps the sequences of a pool within a budget: it applies a policy of package
// evict to a sequence's Scores and calls Retain with the tokens that the policy keeps.
package evictor

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
)

// Options of an Evictor.
type Options struct {
	Policy evict.Policy
	// Budget is the most tokens of a layer, on average over the layers.
	Budget int
	// Slack is how many more tokens are dropped than necessary, so that not every step has to drop
	// some.
	Slack int
	// Reposition rotates the keys of the tokens that stay to positions from 0 on; see
	// kvcache.RetainOptions.
	Reposition bool
	// ResetScoresAfterEvict sets scores to 0 after tokens were dropped. Set it for a policy that
	// reads the scores of recent queries (SnapKV), and not for one that reads those of all queries
	// (H2O).
	ResetScoresAfterEvict bool
}

// Evictor keeps sequences within a budget with a policy. It may be used by one goroutine at a time,
// for any number of sequences.
type Evictor[B backend.Buffer] struct {
	Options
	budgets []int     // of the layers of all parts
	limits  []int     // of each part's layers
	kept    [][][]int // of each part: what Select says; no lists: all of them stay
	scores  []float32
	atOnce  int // scores that are read at once, about
	scratch evict.Scratch
}

// mostScores is 16 MB of scores.
const mostScores = 4 << 20

// New makes an Evictor. An invalid policy is an evict.ErrPolicy, any other invalid option a
// kvcache.ErrConfig.
func New[B backend.Buffer](o Options) (*Evictor[B], error) {
	if o.Policy == nil {
		return nil, badConfig("Policy", "nil", "accepts the policies of package evict")
	}
	if err := o.Policy.Validate(); err != nil {
		return nil, err
	}
	if o.Budget < 1 || o.Budget > 1<<30 || o.Slack < 0 || o.Slack >= o.Budget {
		return nil, badConfig("Budget", fmt.Sprintf("%d, Slack %d", o.Budget, o.Slack), "need a budget of 1 to 2^30, and less slack than that")
	}
	return &Evictor[B]{Options: o, atOnce: mostScores}, nil
}

func badConfig(name, value, why string) error {
	return kvcache.ErrConfig{Package: "evictor", Name: name, Value: value, Why: why}
}
