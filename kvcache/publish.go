package kvcache

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// origin is where a sequence's blocks belong in the prefix tree.
type origin struct {
	root      prefix.Root
	extra     []prefix.Key // of the prompt's blocks with items in them
	keep      prefix.Keep
	items     int             // tokens up to the end of the last item
	fidelity  prefix.Fidelity // of what is written from here on
	published int             // leading blocks that are in the tree
	offered   int             // full blocks when they were last offered to it
	silent    bool            // nothing more is published
	private   bool            // computes what others have, too
}

// publication is a block whose content a step on the device is still writing.
type publication struct {
	fence *fence
	block block.Block
}

// published reports whether the prefix tree has a block, so that nobody may write it.
func (p *Pool[B]) published(b block.Block) bool {
	if p.tree == nil || b == (block.Block{}) {
		return false
	}
	known, _ := p.tree.Has(b)
	return known
}

// full is the number of the sequence's full blocks once it has so many tokens.
func (s *Sequence[B]) full(tokens int) int { return tokens / s.pool.cfg.slots() }

// pending is what a sequence of so many tokens has to publish: its place in the tree
// and the tokens of the blocks that are full and not there yet. What the tree did not
// want is offered again with the next block, not with every token.
func (s *Sequence[B]) pending(tokens int) (prefix.Path, []uint32) {
	full := s.full(tokens)
	if s.pool.tree == nil || s.pool.lost != nil || s.silent || full <= max(s.published, s.offered) {
		return prefix.Path{}, nil
	}
	at := prefix.Path{Root: s.root, Keep: s.keep, Fidelity: s.fidelity, Private: s.private}
	if s.fidelity != prefix.Exact { // equal tokens do not make lossy content equal
		at.Private = true
	}
	if s.published > 0 {
		at.Parent = s.blocks[s.published-1]
	}
	if s.published < len(s.extra) {
		at.Extra = s.extra[s.published:]
	}
	slots := s.pool.cfg.slots()
	return at, s.tokens[s.published*slots : full*slots]
}

// orderKnown puts the step's stream behind those that write the blocks which the
// step's sequences will have in the place of their own: who waits for this step's
// end waits for theirs.
func (b *Batch[B]) orderKnown() error {
	p := b.pool
	for i := range b.entries {
		e := &b.entries[i]
		at, tokens := e.seq.pending(e.context())
		if !e.write || len(tokens) == 0 || at.Private {
			continue
		}
		p.known = p.tree.Known(p.known[:0], at, tokens)
		for _, known := range p.known {
			if err := p.writing[known.ID].order(b.stream); err != nil {
				return err
			}
		}
	}
	return nil
}

// publish puts the blocks that are full now into the tree, behind the step's fence.
// Where the tree has equal ones, those take the place of the sequence's.
func (s *Sequence[B]) publish(f *fence) error {
	p := s.pool
	at, tokens := s.pending(s.len)
	if len(tokens) == 0 {
		return nil
	}
	offered := s.blocks[s.published:s.full(s.len)]
	p.known = append(p.known[:0], offered...)
	n, old, err := p.tree.Insert(p.replaced[:0], at, tokens, offered)
	p.replaced = old[:0]
	switch {
	case errors.Is(err, prefix.ErrDetached): // the tree was cleared under the sequence
		s.silent = true
		return nil
	case err != nil:
		s.silent = true
		return err
	}
	s.silent = at.Private && n < len(offered)
	for i, b := range offered[:n] {
		if b == p.known[i] { // not one that others write
			p.writing[b.ID] = f
			p.publications = append(p.publications, publication{f.hold(), b})
		}
	}
	s.published, s.offered = s.published+n, s.full(s.len)
	return p.retire(f, old)
}

// settle forgets the fences of published blocks whose content is written. What a
// device failed to write is taken out of the tree, and sequences that have it fail.
func (p *Pool[B]) settle() error {
	done := 0
	var err error
	for _, w := range p.publications {
		if !w.fence.reached() {
			break
		}
		if w.fence.err != nil {
			err = firstOf(err, p.device(w.fence.err))
			p.tree.Forget(w.block)
			p.fail(w.block, w.fence.err)
		}
		if p.writing[w.block.ID] == w.fence {
			p.writing[w.block.ID] = nil
		}
		p.fences.drop(w.fence)
		done++
	}
	if done > 0 {
		p.publications = append(p.publications[:0], p.publications[done:]...)
	}
	return err
}

// fail makes the sequences that own a block useless: what they read there was not
// written. Their own steps may be fine, so that nobody else tells them.
func (p *Pool[B]) fail(b block.Block, err error) {
	for s := range p.seqs {
		if s.failed == nil && slices.Contains(s.blocks, b) {
			s.failed = fmt.Errorf("content undefined after a failed step: %w", err)
		}
	}
}

// unwrite notes that the blocks are not full any more from a token on.
func (s *Sequence[B]) unwrite(from int) {
	s.published, s.offered = min(s.published, s.full(from)), min(s.offered, s.full(from))
}

// withdraw is for a sequence that has become shorter. Its last block may be one that
// the tree offers to others: it is taken out if it is the end of a path and nobody
// else's, so that a rejected draft costs no copy; else the next write copies it.
func (s *Sequence[B]) withdraw() {
	p := s.pool
	s.unwrite(s.len)
	s.silent = s.silent || s.len < s.items // what follows may be without them
	if p.tree == nil || s.tail() == (block.Block{}) {
		return
	}
	owners, err := s.tailOwners()
	if known, end := p.tree.Has(s.tail()); known && end && err == nil && owners == 1 {
		p.tree.Forget(s.tail())
	}
}

// unpublish takes the last blocks of sequences that will be written out of the tree
// where nobody else owns them, so that they need no copies, or one copy less, if that
// is what err lacks. A cache must not make a step fail that would do without.
func (p *Pool[B]) unpublish(err error, writers iter.Seq[*Sequence[B]]) bool {
	var short ErrOutOfBlocks
	if !errors.As(err, &short) {
		return false
	}
	shared := map[block.Block]int{} // by how many of the writers
	for s := range writers {
		shared[s.tail()]++
	}
	var alone []block.Block
	for s := range writers {
		b := s.tail()
		if owners, err := s.tailOwners(); err == nil && owners == shared[b] && p.published(b) {
			alone = append(alone, b)
		}
		delete(shared, b)
	}
	if len(alone) == 0 || len(alone) < short.Need-short.Free {
		return false
	}
	for _, b := range alone {
		p.tree.Forget(b)
	}
	return true
}

// shifted notes that count tokens from from on were dropped. What was computed behind
// them was computed with them, and what follows will not be: nothing of it is what its
// tokens alone would say.
func (s *Sequence[B]) shifted(from, count int) {
	if s.pool.tree == nil {
		return
	}
	s.tokens = append(s.tokens[:from], s.tokens[from+count:s.len+count]...)
	s.unwrite(from)
	s.silent = s.silent || from < s.items // they are not where they were
	if from < len(s.tokens) {
		s.fidelity |= prefix.Truncated
		if s.pool.cfg.K.Quantized() {
			s.fidelity |= prefix.Requantized
		}
	}
}
