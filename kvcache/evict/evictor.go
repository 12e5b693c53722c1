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
	lists   [][]int
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

// Room drops tokens so that n more can be appended within the budget, and says how many
// it dropped of the layers together. Where there is room already nothing happens. parts
// are one sequence, or its parts in several pools, in the order of the model's layers:
// all layers of a pool have equally many tokens, so a policy whose budgets differ from
// layer to layer (PyramidKV) needs a pool for each layer, else it is
// backend.ErrUnsupported. A policy that looks at scores needs Config.Scores.
//
// More new tokens than a layer's budget are kvcache.ErrCapacity. When a part fails, those
// before it have dropped theirs.
func (e *Evictor[B]) Room(stream backend.Stream, n int, parts ...*kvcache.Sequence[B]) (dropped int, err error) {
	if err := e.divide(n, parts); err != nil {
		return 0, err
	}
	at := 0
	for _, part := range parts {
		cfg := part.Pool().Config()
		limit := e.Policy.Limit(e.budgets[at])
		at += cfg.Layers
		if part.Len()+n <= limit {
			continue
		}
		before := part.Len()
		if err := e.trim(stream, part, max(limit-n-e.Slack, 0)); err != nil {
			return dropped, err
		}
		dropped += cfg.Layers * (before - part.Len())
	}
	return dropped, nil
}

// divide sets the budgets of all layers.
func (e *Evictor[B]) divide(n int, parts []*kvcache.Sequence[B]) error {
	if n < 0 {
		return backend.ErrShape{Op: "evict", What: fmt.Sprintf("room for %d tokens: need 0 or more", n)}
	}
	layers := 0
	for i, part := range parts {
		if part == nil {
			return backend.ErrShape{Op: "evict", What: fmt.Sprintf("part %d is nil", i)}
		}
		layers += part.Pool().Config().Layers
	}
	total, ok := backend.Mul(e.Budget, layers)
	if !ok {
		return backend.ErrShape{Op: "evict", What: fmt.Sprintf("a budget of %d tokens in %d layers overflows", e.Budget, layers)}
	}
	if e.budgets = e.Policy.Budgets(e.budgets[:0], total, layers); len(e.budgets) != layers {
		return backend.ErrShape{Op: "evict", What: fmt.Sprintf("%s divides by %d layers, need %d", e.Policy, len(e.budgets), layers)}
	}
	at := 0
	for _, part := range parts {
		of := e.budgets[at:][:part.Pool().Config().Layers]
		at += len(of)
		for _, b := range of {
			if b != of[0] {
				return backend.ErrUnsupported{Op: "evict", Why: fmt.Sprintf("%s gives the layers of one pool %d and %d tokens; give each layer a pool of its own", e.Policy, of[0], b)}
			}
		}
		if limit := e.Policy.Limit(of[0]); n > limit {
			return kvcache.ErrCapacity{Have: n, Max: limit}
		}
	}
	return nil
}

// trim drops all but budget tokens of a part.
func (e *Evictor[B]) trim(stream backend.Stream, part *kvcache.Sequence[B], budget int) error {
	cfg, n := part.Pool().Config(), part.Len()
	lists := 1
	if e.Policy.NeedsScores() {
		lists = cfg.Layers
	}
	for len(e.lists) < lists {
		e.lists = append(e.lists, nil)
	}
	for l := range lists {
		layer := Layer{Len: n, Scratch: &e.scratch}
		if e.Policy.NeedsScores() {
			if need := cfg.KVHeads * n; cap(e.scores) < need {
				e.scores = make([]float32, need)
			}
			layer.Heads, layer.Scores = cfg.KVHeads, e.scores[:cfg.KVHeads*n]
			if err := part.Scores(stream, l, layer.Scores); err != nil {
				return err
			}
		}
		e.lists[l] = e.Policy.Keep(e.lists[l][:0], layer, budget)
	}
	if err := part.Keep(stream, e.lists[:lists], kvcache.KeepOptions{Reposition: e.Reposition}); err != nil {
		return err
	}
	if e.FreshScores {
		return part.ClearScores(stream)
	}
	return nil
}
