package kvcache

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Prompts that arrive together compute what they have in common once. vLLM finds blocks that a request of the same step allocates
// (automatic prefix caching); here a runner asks for it, before it adds a prompt to a step: then the sequence begins with tokens
// that another sequence of the step gets. Layer by layer the step writes the rows of all before any is read, so that nothing
// waits. What other steps are about to write is not there yet: Join says how much that is, and a runner decides whether
// the prompt waits for it.

// Join looks for the beginning of seq's prompt once more, just before its first tokens are added to the step: also in what was written
// since Open, and in prompts that this step computes, as far as they were added. What it finds there, whole blocks, is the sequence's
// from here on:
//
//	m, err := step.Join(seq)
//	if m.Pending > 0 { … }                 // others are computing more: come back after their Commit, or go on
//	err = step.Add(seq, prompt[m.Cached:])
//
// Match.Pending is what follows and other sequences are about to write: those in the middle of the same prompt that are part of another
// step, or have had one, or of this one with a piece of it that does not reach so far. A sequence that waits for them
// follows their pieces. They may be released before: then Pending is less the next time.
//
// Join allocates nothing on the device. If the step is reset the sequence has what was found in the cache. Drafts are not shared, nor is what
// is computed with OpenOptions.NoPublish, Spans that only Add named, or another scope; pools whose layers have states or a
// residual window share what is committed. Like Add it must be called while the sequence is in no step; one that has had a step, or has its prompt,
// gets nothing.
func (b *Batch[B]) Join(seq *Sequence[B]) (m Match, err error) {
	defer naming("Batch.Join", &err)
	if err := b.begin(); err != nil {
		return Match{}, err
	}
	p := b.pool
	p.lock()
	defer p.unlock()
	if err := b.takes(seq, 1, "tokens"); err != nil {
		return Match{}, err
	}
	b.unjoin(nil)
	if err := seq.idle(); err != nil {
		return Match{}, err
	}
	if err := p.usable(); err != nil {
		return Match{}, err
	}
	if !seq.fresh || seq.coming != nil || !seq.shares() || seq.Len() >= seq.text.Prompt() {
		return seq.matched(), nil
	}
	if err := seq.again(); err != nil {
		return Match{}, err
	}
	m = seq.matched()
	lead, here, pending := b.leads(seq)
	if m.Pending = max(pending-m.Cached, 0); here <= m.Cached || here < pending || !p.parts.Joins() {
		return m, nil
	}
	if err := seq.runs.Join(here); err != nil {
		return Match{}, p.observe(err)
	}
	seq.text.Join(here)
	seq.busy, b.joining.seq, b.joining.lead = true, seq, lead
	return seq.matched(), nil
}

// joining is a sequence that has joined another one of the step and was not added yet.
type joining[B backend.Buffer] struct {
	seq  *Sequence[B]
	lead int  // the member that it joined
	any  bool // some member has joined another one
}

// again looks in the tree for what was written of the prompt since the sequence was opened, which has had no step.
func (s *Sequence[B]) again() error {
	q := prefix.Query{Tokens: s.text.Tokens()[:s.text.Prompt()-1], Extra: s.text.Extra}
	groups := s.pool.parts.Blocks.Groups()
	if found, _ := groups.Match(s.text.Root, q); found.Tokens <= s.Len() {
		return nil
	}
	taken, err := groups.Take(s.text.Root, q, s.text.Keep, prefix.Match{})
	if err != nil || taken.Tokens == 0 {
		return err
	}
	err = s.runs.ReuseAnew(taken)
	s.text.Reuse(taken.Match)
	return err
}

// shares reports whether others may have what the sequence computes, and it what they do.
func (s *Sequence[B]) shares() bool {
	return s.pool.tree != nil && s.runs.Failed == nil && s.runs.Suspended == nil && !s.text.Private && !s.text.Silent && s.text.Fidelity == prefix.Exact
}

// leads finds the sequences that have, or are about to have, most of seq's prompt: the member of the step that has most of it once the step
// is committed, as far as it was added, how much that is, and how much any other one will have.
func (b *Batch[B]) leads(seq *Sequence[B]) (lead, here, pending int) {
	for i := range b.members {
		m := &b.members[i]
		if m.queried || m.silent || !m.seq.shares() {
			continue
		}
		have := m.seq.Len()
		if !m.ended {
			have += b.step.New(i)
		} else if m.draft > 0 {
			have += b.step.New(i) - m.draft
		}
		if n := seq.common(m.seq, have); n > here && m.seq.runs.Leads(n) {
			lead, here = i, n
		}
	}
	return lead, here, seq.pending(func(s *Sequence[B]) bool { return s.busy || !s.fresh })
}

// pending is how many tokens the sequence's prompt has in common with those of others that are not computed yet, of those that count.
func (s *Sequence[B]) pending(counts func(*Sequence[B]) bool) (n int) {
	for of := range s.pool.seqs {
		if of.Len() < of.text.Prompt() && counts(of) && of.shares() {
			n = max(n, s.common(of, of.text.Prompt()))
		}
	}
	return n
}

// common is the tokens of whole entries of the tree that the sequence's prompt has in common with the first n tokens of another one.
// At least one of the prompt is left to compute.
func (s *Sequence[B]) common(of *Sequence[B], n int) int {
	if of == s || of.text.Root.Key != s.text.Root.Key {
		return 0
	}
	size := s.pool.cfg.EntryTokens()
	mine, theirs := s.text.Tokens()[:s.text.Prompt()-1], of.text.Tokens()
	theirs = theirs[:min(n, len(theirs))]
	at := 0
	for ; (at+1)*size <= min(len(mine), len(theirs)); at++ {
		if !slices.Equal(mine[at*size:(at+1)*size], theirs[at*size:(at+1)*size]) || extra(s.text.Extra, at) != extra(of.text.Extra, at) {
			break
		}
	}
	return at * size
}

// extra is the key of what an entry has besides tokens.
func extra(keys []prefix.Key, at int) prefix.Key {
	if at < len(keys) {
		return keys[at]
	}
	return prefix.Key{}
}

// unjoin has a sequence that has joined and was not added begin with what the cache has, unless it is the one that is added now. The
// caller holds the lock.
func (b *Batch[B]) unjoin(but *Sequence[B]) {
	s := b.joining.seq
	if s == nil || s == but {
		return
	}
	b.joining.seq, s.busy = nil, false
	s.part()
}

// part undoes what Join did.
func (s *Sequence[B]) part() {
	s.runs.Unjoin()
	s.text.Reuse(prefix.Match{})
	_ = s.again() // else it begins with nothing
}
