package kvcache

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// View is what a query sees: the tokens of its sequence before End that the layer's mask lets it see from Position. A window
// is measured from there, in both directions; a chunk is the one of Position. With LayerIO.Rotate the query is rotated to it, or,
// after Retain dropped tokens and the others kept their positions, to as far before NextPosition as Position is before Len.
// Cross attention sees {0, seq.Len()}, the token at i as it was computed {i, i + 1}. Positions may be beyond the sequence, but
// for Storage.Residual, which reads a token as the distance from Position says.
type View struct{ Position, End int }

// ErrView is a query that would see tokens which layers have given up (Model.Groups).
type ErrView struct {
	Query    int        // which of the call's
	Position int        // of the query
	First    int        // the first token that the layers have, behind their sinks
	Group    group.Kind // of the layers
}

func (e ErrView) Error() string {
	return fmt.Sprintf("kvcache: query %d, at position %d, sees tokens before %d, which the layers of a group of kind "+
		"%v have given up; ask from a later position, or raise Memory.Rollback", e.Query, e.Position, e.First, e.Group)
}

// Is matches the same error and the zero value.
func (e ErrView) Is(target error) bool {
	t, ok := target.(ErrView)
	return ok && (t == e || t == ErrView{})
}

// Query adds queries to the step that read seq and give it no tokens: cross attention, or attention once more to what is
// there. Their rows of q and out follow those of what was added before; theirs of k and v, in a step with new tokens of other
// sequences, are not used. As those of new tokens they are rotated by Append, which a step without new tokens needs for that, and
// with Storage.Hadamard, alone. A sequence may be queried several times in a step, with other sequences in between, and in
// several open steps at once, also on several streams; until all of them are committed or reset nothing else can be done with
// it (ErrBusy). Attention.Scores counts what queries give; with Storage.Residual besides a sequence is queried in one open step
// at a time (ErrBusy), for a step may take scores to another cache and back.
//
// ErrView if layers have given up what a query sees, as they may have for the sequence's last position, too, with
// Memory.Rollback −1: only what its next token sees is kept then. It is backend.ErrUnsupported in pools with states, in steps of a
// fixed shape, and on devices without views of queries (backend.Caps.Views).
func (b *Batch[B]) Query(seq *Sequence[B], views []View) (err error) {
	defer naming("Batch.Query", &err)
	if err := b.begin(); err != nil {
		return err
	}
	p := b.pool
	p.lock()
	defer p.unlock()
	if err := b.takes(seq, len(views), "queries"); err != nil {
		return err
	}
	at, err := b.asks(seq)
	if err != nil {
		return err
	}
	if err := b.checkQueries(seq, views); err != nil {
		return err
	}
	if at < 0 {
		b.step.Add(&seq.runs, len(views), false, seq.NextPosition())
		b.members = append(b.members, member[B]{seq: seq, queried: true})
		seq.queries++
	} else {
		b.step.Again(at, len(views))
	}
	b.step.See()
	for _, v := range views {
		b.step.View(v.Position, v.End)
	}
	return nil
}

// asks is the step's entry of a sequence that is queried; −1: it has none.
func (b *Batch[B]) asks(seq *Sequence[B]) (int, error) {
	if seq.busy {
		if b.entry(seq) >= 0 {
			return 0, ErrStep{Why: "the sequence gets tokens in this step; query it in another one"}
		}
		return 0, ErrBusy
	}
	if seq.queries == 0 {
		return -1, seq.readable()
	}
	if at := b.entry(seq); at >= 0 {
		return at, nil
	}
	if c := &b.pool.cfg; c.Storage.Residual > 0 && c.Attention.Scores {
		return 0, ErrBusy
	}
	return -1, seq.readable()
}

// checkQueries reports why queries cannot be had.
func (b *Batch[B]) checkQueries(seq *Sequence[B], views []View) error {
	p := b.pool
	if err := b.checkViews("queries"); err != nil {
		return err
	}
	most := p.cfg.Memory.Capacity
	if p.cfg.Storage.Residual > 0 {
		most = seq.Len()
	}
	for i, v := range views {
		if v.Position < 0 || v.Position >= most {
			return argument("query %d is at position %d; need 0 to %d", i, v.Position, most-1)
		}
		if v.End < 0 || v.End > seq.Len() {
			return argument("query %d sees the tokens before %d; the sequence has %d", i, v.End, seq.Len())
		}
		if turned := v.Position + seq.NextPosition() - seq.Len(); turned >= p.cfg.Memory.Capacity && p.rotates() {
			return ErrCapacity{Have: turned + 1, Max: p.cfg.Memory.Capacity, Positions: true}
		}
	}
	if st := seq.runs.Stateful(); st != nil {
		return unsupported("queries without new tokens: a layer in a group of kind %v has no earlier state to read", st.Rule.Kind)
	}
	for i := range seq.runs.In {
		run := &seq.runs.In[i]
		r := &run.Part.Rule
		if run.Gone == 0 {
			continue
		}
		sinks, gone := run.Cut()
		for j, v := range views {
			if r.Sees(v.Position) < sinks+gone {
				return ErrView{Query: j, Position: v.Position, First: sinks + gone, Group: r.Kind}
			}
		}
	}
	return nil
}
