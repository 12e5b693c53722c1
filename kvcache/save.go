package kvcache

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/snap"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// Saved is what a snapshot has, or is to have (docs/snapshot.md).
type Saved[B backend.Buffer] struct {
	// Sequences are those that are saved, or new ones, in the same order. None for Save: all of the pool, in the order in which
	// they were opened, but for those that a Load has not returned yet.
	Sequences []*Sequence[B]
	// Notes are what the program adds, such as the state of its sampler.
	Notes []snapshot.Note
}

// Save writes what sequences have to w, as one stream that a pool of any layout, block size and device loads (see Load): tokens,
// positions, keys and values as they are stored, states, and each block once, however many of the sequences share it. Other sequences,
// and steps, go on meanwhile; with those that are saved nothing else can be done (ErrBusy). It holds some megabytes of host memory. A failure,
// such as one of w, leaves part of the stream with w, which no Load takes for a snapshot.
//
// Of layers with states there are those to which a sequence can go back (Resumable), too. They are the prefix tree's: Save waits for the
// steps that write them, and meanwhile holds up to a quarter of the blocks that others could take.
//
// A suspended sequence is saved from host memory, and stays suspended. What it shared is in the stream once more, for it has its own by then,
// and of states there is the last one alone.
//
// Not saved: how long something was to be kept, what only the tree has of windows, and what was on its way from tiers. The model
// needs a Digest, and an adapter a version, for what is saved must not be taken for that of other weights: ErrConfig. What is saved is as
// secret as what was said, for prompts can be computed from it: options seal it.
func (p *Pool[B]) Save(w io.Writer, what Saved[B], o snapshot.Options) (err error) {
	defer naming("Pool.Save", &err)
	return p.save(snapshot.NewWriter(w, o), what)
}

// WriteTo is Pool.Save of the sequence alone, as it is and in the clear, of which Pool.ReadSequence makes another one.
func (s *Sequence[B]) WriteTo(w io.Writer) (n int64, err error) {
	defer naming("Sequence.WriteTo", &err)
	if w == nil {
		return 0, argument("the writer is nil")
	}
	counts := &tally{to: w}
	err = s.pool.save(snapshot.NewWriter(counts, snapshot.Options{}), Saved[B]{Sequences: []*Sequence[B]{s}})
	return counts.bytes, err
}

// tally counts what was written.
type tally struct {
	to    io.Writer
	bytes int64
}

func (c *tally) Write(b []byte) (int, error) {
	n, err := c.to.Write(b)
	c.bytes += int64(n)
	return n, err
}

func (p *Pool[B]) save(w *snapshot.Writer, what Saved[B]) (err error) {
	p.lock()
	defer p.unlock()
	if err := p.closedErr(); err != nil {
		return err
	}
	if err := p.usable(); err != nil {
		return err
	}
	if err := p.cfg.Persistable(); err != nil {
		return err
	}
	seqs := what.Sequences
	if len(seqs) == 0 {
		for s := range p.seqs {
			if !s.incoming {
				seqs = append(seqs, s)
			}
		}
		slices.SortFunc(seqs, func(a, b *Sequence[B]) int { return cmp.Compare(a.number, b.number) })
	}
	head := snapshot.Head{Notes: what.Notes}
	if head.Content, err = p.cfg.Content(); err != nil {
		return err
	}
	given := make(map[*Sequence[B]]struct{}, len(seqs))
	for i, s := range seqs {
		if err := s.savable(p); err != nil {
			return err
		}
		if given[s] = struct{}{}; len(given) == i {
			return argument("sequence %d is given twice", i)
		}
	}
	o, err := snap.NewOut(p.parts)
	if err != nil {
		return p.parts.Fences.Observe(err)
	}
	defer func() { err = p.parts.Fences.Observe(errors.Join(err, o.Close())) }()
	for _, s := range seqs {
		if err := o.Order(&s.runs); err != nil {
			return err
		}
	}
	for _, s := range seqs {
		s.busy = true
	}
	defer func() {
		for _, s := range seqs {
			s.busy, err = false, errors.Join(err, s.runs.ForgoArriving())
		}
	}()
	if err := p.parts.Fences.Apart(o.Wait); err != nil {
		return err
	}
	head.Strips = o.Strips()
	scopes := make(map[scopeOf]int)
	o.Spare(p.parts.Blocks.Stats())
	for _, s := range seqs {
		if err := s.runs.Writers.Failed(); err != nil { // what it wrote is undefined
			return err
		}
		q := s.saved(&head, scopes)
		q.Strips = o.Add(&s.runs)
		head.Sequences = append(head.Sequences, q)
	}
	return p.parts.Fences.Apart(func() error {
		for _, s := range seqs {
			if err := s.runs.Sound(); err != nil { // it would be written with a valid sum
				return err
			}
		}
		return cmp.Or(w.Head(&head), o.Write(w), w.Close())
	})
}

// savable is why a sequence cannot be saved. The caller holds the lock.
func (s *Sequence[B]) savable(by *Pool[B]) error {
	switch {
	case s == nil:
		return argument("the sequence is nil; open one with Pool.Open")
	case s.pool != by:
		return ErrOtherPool
	}
	if err := s.idle(); err != nil && !errors.Is(err, ErrSuspended) {
		return err
	}
	if err := s.text.Scope.Persistable(); err != nil {
		return ErrConfig{Name: "Adapter.Version", Value: "", Why: err.(prefix.ErrArgument).Why}
	}
	return nil
}

// scopeOf is a scope by its content.
type scopeOf struct {
	salted, adapted bool
	salt            string
	adapter         prefix.Adapter
}

// saved is what a snapshot has of a sequence besides its content. Its scope is added to the head, where it is not there.
func (s *Sequence[B]) saved(h *snapshot.Head, scopes map[scopeOf]int) snapshot.Sequence {
	t := &s.text
	q := snapshot.Sequence{Len: s.Len(), Next: t.Positions.Next, Silent: t.Silent, Private: t.Private, Fidelity: t.Fidelity, Draft: t.Draft}
	if t.Prompt() > q.Len {
		q.Prompt = t.Prompt()
	}
	if q.Prompt > 0 || !q.Silent { // else they may not be where they were, and nobody asks
		q.Items, q.Spans = t.Contents, t.Seen
	}
	if n := max(q.Len, q.Prompt); len(t.Tokens()) >= n {
		q.Tokens = t.Tokens()[:n]
	}
	for i := range t.Positions.Lists() {
		q.Positions = append(q.Positions, t.Positions.List(i))
	}
	of := scopeOf{salted: t.Scope.Salt != nil, salt: string(t.Scope.Salt)}
	if a := t.Scope.Adapter; a != nil {
		of.adapted, of.adapter = true, *a
	}
	n, there := scopes[of]
	if !there {
		n = len(h.Scopes)
		scopes[of], h.Scopes = n, append(h.Scopes, t.Scope)
	}
	q.Scope = n
	return q
}
