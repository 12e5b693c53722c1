package kvcache

import "fmt"

// AddTree adds a tree of guesses, as EAGLE (arXiv:2401.15077) and Medusa (arXiv:2401.10774) draft them, of which a path may
// be right: node i is tokens[i] and goes on from node parents[i], which is further in front, or from the sequence where that
// is −1. It sees the sequence and the nodes that it goes on from, and its position is behind them. Once the layers are
// computed Accept says which nodes are right; Commit gives the sequence those, at the positions that they have, and no others:
// nobody finds a guess, and no event tells of one. The sequence gets no more tokens in the step. A token that is certain, as the
// one sampled last, may be the node that all others go on from.
//
// Attention.Scores counts what all nodes give to the tokens that they see, that of nodes that are not accepted, too.
//
// A tree counts with all its nodes for Memory.Capacity and for the blocks that the step takes. It is backend.ErrUnsupported in
// models that are NonCausal or have chunks or states, with Storage.Residual, in steps of a fixed shape, and on devices without
// views of queries or with fewer nodes (backend.Caps.TreeWords); and backend.ErrArgument where a window is smaller than the
// tree is deep.
func (b *Batch[B]) AddTree(seq *Sequence[B], tokens []uint32, parents []int) (err error) {
	defer naming("Batch.AddTree", &err)
	if len(tokens) != len(parents) {
		return argument("%d tokens and %d parents; need one parent for each", len(tokens), len(parents))
	}
	for i, parent := range parents {
		if parent < -1 || parent >= i {
			return argument("node %d goes on from node %d; need one before it, or -1 for the sequence", i, parent)
		}
	}
	return b.add(seq, addition{tokens: tokens, n: len(tokens), parents: parents})
}

// checkTree reports why the pool cannot have a tree.
func (b *Batch[B]) checkTree(seq *Sequence[B], parents []int, have int) error {
	p := b.pool
	if err := b.checkViews("trees"); err != nil {
		return err
	}
	switch {
	case p.cfg.Model.NonCausal:
		return unsupported("trees are for causal models; this one is Model.NonCausal")
	case p.cfg.Storage.Residual > 0:
		return unsupported("trees do not go with Storage.Residual: blocks of nodes would be quantized that may be " +
			"rejected; use AddDraft")
	case len(parents) > 32*p.caps.TreeWords:
		return unsupported("a tree of %d nodes: the device takes %d", len(parents), 32*p.caps.TreeWords)
	case seq.text.Prompt() > have:
		return ErrStep{Why: fmt.Sprintf("the sequence was opened with a prompt of %d tokens and has %d; add the rest "+
			"before a tree, also in the same step", seq.text.Prompt(), have)}
	}
	if len(p.chunks) > 0 {
		return unsupported("trees do not go with layers that attend in chunks, here of %d tokens; use AddDraft", p.chunks[0])
	}
	if st := p.parts.Stateful(); st != nil {
		return unsupported("trees do not go with a group of kind %v: a state goes on along one path; draft on Forks",
			st.Rule.Kind)
	}
	if p.narrowest == 0 {
		return nil
	}
	b.depths = b.depths[:0]
	for i, parent := range parents {
		depth := 1
		if parent >= 0 {
			depth += b.depths[parent]
		}
		if b.depths = append(b.depths, depth); depth > p.narrowest {
			return argument("node %d is the %dth of its path; layers see %d tokens, and nodes see all that they go on "+
				"from", i, depth, p.narrowest)
		}
	}
	return nil
}

// Accept says which nodes of a sequence's tree (AddTree) are right: path, from the first, which goes on from the sequence, to
// the last, each going on from the one before it. An empty path accepts none. Commit wants it of every tree; until then it
// may be called again.
func (b *Batch[B]) Accept(seq *Sequence[B], path []int) (err error) {
	defer naming("Batch.Accept", &err)
	b.pool.lock()
	defer b.pool.unlock()
	if err := b.want(stepPlanned); err != nil {
		return err
	}
	if b.moves != movedNone {
		return ErrStep{Why: "Commit has begun; reset the step"}
	}
	at := b.entry(seq)
	if at < 0 {
		return argument("the sequence is not in this step")
	}
	return b.step.Accept(at, path)
}
