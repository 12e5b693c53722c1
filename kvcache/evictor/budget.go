package evictor

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
)

// EnsureBudget drops tokens so that n more can be appended within the budget, and returns how many
// it dropped, summed over the layers. It does nothing when there is room already.
//
// parts are one sequence, or the parts of a sequence in several pools, in the order of the model's
// layers. All layers of a pool have equally many tokens, so a policy whose budgets differ from
// layer to layer (PyramidKV) needs a pool for each layer, else it is backend.ErrUnsupported. A
// policy that reads scores needs a pool that keeps them.
//
// kvcache.ErrCapacity when n is more than a layer's budget, backend.ErrArgument for no parts or the
// same one twice, kvcache.ErrConfig when the policy returns an invalid answer, and the error of a
// part's Err when it cannot be changed. After these errors nothing was dropped. When a part lacks
// blocks for copies of shared ones, or the device fails, the parts before it have dropped their
// tokens.
func (e *Evictor[B]) EnsureBudget(stream backend.Stream, n int, parts ...*kvcache.Sequence[B]) (dropped int, err error) {
	if err := e.check(n, parts); err != nil {
		return 0, err
	}
	if err := e.divide(n, parts); err != nil {
		return 0, err
	}
	for i, part := range parts {
		e.kept[i] = e.kept[i][:0]
		if part.Len() <= e.limits[i]-n {
			continue
		}
		if err := e.choose(stream, part, i, max(e.limits[i]-n-e.Slack, 0)); err != nil {
			return 0, err
		}
	}
	for i, part := range parts {
		if len(e.kept[i]) == 0 {
			continue
		}
		before := part.Len()
		if err := part.Retain(stream, e.kept[i], kvcache.RetainOptions{Reposition: e.Reposition}); err != nil {
			return dropped, err
		}
		if e.ResetScoresAfterEvict {
			if err := part.ClearScores(stream); err != nil {
				return dropped, err
			}
		}
		dropped += part.Pool().Config().Model.Layers * (before - part.Len())
	}
	return dropped, nil
}

// check reports parts that cannot be made room in.
func (e *Evictor[B]) check(n int, parts []*kvcache.Sequence[B]) error {
	if e.Policy == nil {
		return badConfig("Policy", "nil", "make the Evictor with New")
	}
	if n < 0 {
		return badCall("room for %d tokens: need 0 or more", n)
	}
	if len(parts) == 0 {
		return badCall("no sequence: need one, or its parts in several pools")
	}
	for i, part := range parts {
		if part == nil {
			return badCall("part %d is nil", i)
		}
		if first := slices.Index(parts, part); first < i {
			return badCall("part %d is part %d once more", i, first)
		}
		if err := part.Err(); err != nil {
			return fmt.Errorf("evictor: part %d: %w", i, err)
		}
	}
	return nil
}

// divide finds the limit of each part's layers, and makes place for what stays of it.
func (e *Evictor[B]) divide(n int, parts []*kvcache.Sequence[B]) error {
	layers := 0
	for _, part := range parts {
		layers += part.Pool().Config().Model.Layers
	}
	total, ok := backend.Mul(e.Budget, layers)
	if !ok {
		return badCall("a budget of %d tokens in %d layers overflows", e.Budget, layers)
	}
	var err error
	if e.budgets, err = evict.Divide(e.budgets[:0], e.Policy, total, layers); err != nil {
		return badConfig("Policy", e.Policy.String(), err.Error())
	}
	e.limits = e.limits[:0]
	at := 0
	for i, part := range parts {
		of := e.budgets[at:][:part.Pool().Config().Model.Layers]
		at += len(of)
		if least := slices.Min(of); least != slices.Max(of) {
			return backend.ErrUnsupported{Package: "evictor", Op: "ensure budget", Why: fmt.Sprintf("%s gives the layers of one pool %d to %d tokens; give each layer a pool of its own", e.Policy, least, slices.Max(of))}
		}
		e.limits = append(e.limits, e.Policy.Limit(of[0]))
		if n > e.limits[i] {
			return kvcache.ErrCapacity{Have: n, Max: e.limits[i]}
		}
		if i == len(e.kept) {
			e.kept = append(e.kept, nil)
		}
	}
	return nil
}

// choose finds what stays of a part under a budget.
func (e *Evictor[B]) choose(stream backend.Stream, part *kvcache.Sequence[B], i, budget int) (err error) {
	cfg := part.Pool().Config()
	about := evict.Layer{Len: part.Len(), Heads: cfg.Model.KVHeads, Scratch: &e.scratch}
	layers, together := 1, 1 // in which the policy chooses, and of these at once
	if e.Policy.NeedsScores() {
		layers, together = cfg.Model.Layers, max(e.atOnce/max(about.Heads*about.Len, 1), 1)
	}
	for first := 0; first < layers; first += together {
		if e.Policy.NeedsScores() {
			n := min(together, layers-first) * about.Heads * about.Len
			about.Scores = slices.Grow(e.scores[:0], n)[:n]
			e.scores = about.Scores
			if err := part.Scores(stream, first, e.scores); err != nil {
				return err
			}
		}
		if e.kept[i], err = evict.Select(e.kept[i], e.Policy, about, budget); err != nil {
			return badConfig("Policy", e.Policy.String(), err.Error())
		}
	}
	return nil
}

func badCall(format string, args ...any) error {
	return backend.ErrArgument{Package: "evictor", Op: "ensure budget", What: fmt.Sprintf(format, args...)}
}
