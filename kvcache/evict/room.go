package evict

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// trim is a part that drops tokens, and its lists of Evictor.lists.
type trim struct{ part, begin, end int }

// Room drops tokens so that n more can be appended within the budget, and says how many
// it dropped of the layers together. Where there is room already nothing happens. parts
// are one sequence, or its parts in several pools, in the order of the model's layers:
// all layers of a pool have equally many tokens, so a policy whose budgets differ from
// layer to layer (PyramidKV) needs a pool for each layer, else it is
// backend.ErrUnsupported. A policy that looks at scores needs Config.Scores.
//
// More new tokens than a layer's budget are kvcache.ErrCapacity, no parts or one of them
// twice backend.ErrShape, and a policy that answers what it may not kvcache.ErrConfig. A part
// that cannot be changed is the error of its Err. All of that is known before any part drops
// tokens. Should a part lack blocks for copies of shared ones after that, or the device fail,
// the parts before have dropped theirs.
func (e *Evictor[B]) Room(stream backend.Stream, n int, parts ...*kvcache.Sequence[B]) (dropped int, err error) {
	if err := e.check(n, parts); err != nil {
		return 0, err
	}
	if err := e.divide(n, parts); err != nil {
		return 0, err
	}
	e.trims = e.trims[:0]
	at, used := 0, 0
	for i, part := range parts {
		limit := e.Policy.Limit(e.budgets[at])
		at += part.Pool().Config().Layers
		if part.Len()+n <= limit {
			continue
		}
		lists, err := e.choose(stream, part, used, max(limit-n-e.Slack, 0))
		if err != nil {
			return 0, err
		}
		e.trims = append(e.trims, trim{i, used, used + lists})
		used += lists
	}
	for _, t := range e.trims {
		part := parts[t.part]
		before := part.Len()
		if err := e.keep(stream, part, e.lists[t.begin:t.end]); err != nil {
			return dropped, err
		}
		dropped += part.Pool().Config().Layers * (before - part.Len())
	}
	return dropped, nil
}

// check reports parts that cannot be made room in.
func (e *Evictor[B]) check(n int, parts []*kvcache.Sequence[B]) error {
	if e.Policy == nil {
		return kvcache.ErrConfig{Name: "Policy", Value: "nil", Why: "make the Evictor with New"}
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
			return fmt.Errorf("evict: part %d: %w", i, err)
		}
	}
	return nil
}

// divide sets the budgets of all layers.
func (e *Evictor[B]) divide(n int, parts []*kvcache.Sequence[B]) error {
	layers := 0
	for _, part := range parts {
		layers += part.Pool().Config().Layers
	}
	total, ok := backend.Mul(e.Budget, layers)
	if !ok {
		return badCall("a budget of %d tokens in %d layers overflows", e.Budget, layers)
	}
	e.budgets = e.Policy.Budgets(e.budgets[:0], total, layers)
	if len(e.budgets) != layers {
		return e.badPolicy("it divides by %d layers, need %d", len(e.budgets), layers)
	}
	sum := 0
	for _, b := range e.budgets {
		if b < 0 || b > total-sum {
			return e.badPolicy("it gives layers %v, more than the %d tokens of all of them", e.budgets, total)
		}
		sum += b
	}
	at := 0
	for _, part := range parts {
		of := e.budgets[at:][:part.Pool().Config().Layers]
		at += len(of)
		for _, b := range of {
			if b != of[0] {
				return backend.ErrUnsupported{Package: "evict", Op: "room", Why: fmt.Sprintf("%s gives the layers of one pool %d and %d tokens; give each layer a pool of its own", e.Policy, of[0], b)}
			}
		}
		limit := e.Policy.Limit(of[0])
		if limit > of[0] {
			return e.badPolicy("its limit under a budget of %d is %d", of[0], limit)
		}
		if n > limit {
			return kvcache.ErrCapacity{Have: n, Max: limit}
		}
	}
	return nil
}

// choose puts what stays of a part under a budget into the lists from one on, and says how
// many they are.
func (e *Evictor[B]) choose(stream backend.Stream, part *kvcache.Sequence[B], first, budget int) (lists int, err error) {
	cfg, n := part.Pool().Config(), part.Len()
	lists = 1
	if e.Policy.NeedsScores() {
		lists = cfg.Layers
	}
	for len(e.lists) < first+lists {
		e.lists = append(e.lists, nil)
	}
	of := cfg.KVHeads * n // scores of a layer
	for l := range lists {
		layer := Layer{Len: n, Scratch: &e.scratch}
		if e.Policy.NeedsScores() {
			at := l % together(of)
			if at == 0 {
				read := min(together(of), lists-l)
				e.scores = slices.Grow(e.scores[:0], read*of)[:read*of]
				if err := part.Scores(stream, l, e.scores); err != nil {
					return 0, err
				}
			}
			layer.Heads, layer.Scores = cfg.KVHeads, e.scores[at*of:][:of]
		}
		kept := e.Policy.Keep(e.lists[first+l][:0], layer, budget)
		e.lists[first+l] = kept
		if err := e.checkKept(kept, e.lists[first], n, budget); err != nil {
			return 0, err
		}
	}
	return lists, nil
}

// mostScores is how many scores are read at once, about: 16 MB of them.
const mostScores = 4 << 20

// together is of how many layers scores are read at once, given how many each has.
func together(of int) int { return max(mostScores/max(of, 1), 1) }

// checkKept checks what a policy keeps of n tokens.
func (e *Evictor[B]) checkKept(kept, first []int, n, budget int) error {
	if len(kept) > budget {
		return e.badPolicy("it kept %d tokens of %d under a budget of %d", len(kept), n, budget)
	}
	if len(kept) != len(first) {
		return e.badPolicy("it kept %d tokens of one layer and %d of another", len(first), len(kept))
	}
	last := -1
	for _, token := range kept {
		if token <= last || token >= n {
			return e.badPolicy("it kept token %d of %d after token %d", token, n, last)
		}
		last = token
	}
	return nil
}

// keep drops the other tokens of a part.
func (e *Evictor[B]) keep(stream backend.Stream, part *kvcache.Sequence[B], lists [][]int) error {
	if err := part.Keep(stream, lists, kvcache.KeepOptions{Reposition: e.Reposition}); err != nil {
		return err
	}
	if e.FreshScores {
		return part.ClearScores(stream)
	}
	return nil
}

func (e *Evictor[B]) badPolicy(format string, args ...any) error {
	return kvcache.ErrConfig{Name: "Policy", Value: e.Policy.String(), Why: fmt.Sprintf(format, args...)}
}

func badCall(format string, args ...any) error {
	return backend.ErrShape{Package: "evict", Op: "room", What: fmt.Sprintf(format, args...)}
}
