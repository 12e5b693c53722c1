package kvcache

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
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

// full is the number of the sequence's blocks that are full and stay as they are.
func (s *Sequence[B]) full() int { return min(len(s.kept.blocks), s.len/s.pool.cfg.slots()) }

// pending is what a sequence with so many full blocks has to publish: its place in the tree
// and the tokens of those that are not there yet. What the tree did not
// want is offered again with the next block, not with every token.
func (s *Sequence[B]) pending(full int) (prefix.Path, []uint32) {
	if s.pool.tree == nil || s.pool.fences.Lost() != nil || s.silent || full <= max(s.published, s.offered) {
		return prefix.Path{}, nil
	}
	at := prefix.Path{Root: s.root, Keep: s.keep, Fidelity: s.fidelity, Private: s.private}
	if s.fidelity != prefix.Exact { // equal tokens do not make lossy content equal
		at.Private = true
	}
	if s.published > 0 {
		at.Parent = s.kept.blocks[s.published-1]
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
		at, tokens := e.seq.pending(e.publishes())
		if !e.write || len(tokens) == 0 || at.Private {
			continue
		}
		if err := p.kept.OrderKnown(at, tokens, b.stream); err != nil {
			return err
		}
	}
	return nil
}

// publishes is the number of the sequence's full blocks once the step is committed.
func (e *entry[B]) publishes() int {
	if e.seq.pool.windowed() {
		return e.full + len(e.kept.blocks)
	}
	return e.context() / e.seq.pool.cfg.slots()
}

// publish puts the blocks that are full now into the tree, behind the step's fence.
// Where the tree has equal ones, those take the place of the sequence's.
func (s *Sequence[B]) publish(f *residency.Fence) error {
	full := s.full()
	at, tokens := s.pending(full)
	if len(tokens) == 0 {
		return nil
	}
	offered := s.kept.blocks[s.published:full]
	n, err := s.pool.kept.Publish(f, at, tokens, offered)
	if n == 0 && err != nil {
		s.silent = true
		if errors.Is(err, prefix.ErrDetached) { // the tree was cleared under the sequence
			return nil
		}
		return err
	}
	s.silent = at.Private && n < len(offered)
	s.published, s.offered = s.published+n, full
	return err
}

// fail makes the sequences that own a block useless: what they read there was not
// written. Their own steps may be fine, so that nobody else tells them.
func (p *Pool[B]) fail(b block.Block, err error) {
	for s := range p.seqs {
		if s.failed == nil && slices.Contains(s.kept.blocks, b) {
			s.failed = fmt.Errorf("content undefined after a failed step: %w", err)
		}
	}
}

// unwrite notes that the blocks are not full any more from a token on.
func (s *Sequence[B]) unwrite(from int) {
	full := from / s.pool.cfg.slots()
	s.published, s.offered = min(s.published, full), min(s.offered, full)
}

// withdraw is for a sequence that has become shorter. Its last block may be one that
// the tree offers to others: it is taken out if it is the end of a path and nobody
// else's, so that a rejected draft costs no copy; else the next write copies it.
func (s *Sequence[B]) withdraw() {
	s.unwrite(s.len)
	s.silent = s.silent || s.len < s.items // what follows may be without them
	if !s.pool.windowed() { // else it is not written again
		s.pool.kept.Withdraw(s.tail())
	}
}

// tails are the blocks that sequences write next.
func tails[B backend.Buffer](writers iter.Seq[*Sequence[B]]) (blocks []block.Block) {
	for s := range writers {
		blocks = append(blocks, s.tail())
	}
	return blocks
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
