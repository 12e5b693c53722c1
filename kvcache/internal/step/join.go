package step

import "github.com/ferrumkv/ferrumkv/kvcache/block"

// Join makes entry i that of a sequence which has joined that of entry lead, one before it: see store.Runs.Join.
func (b *Set[B]) Join(i, lead int) {
	for j := range b.Steps {
		b.Steps[j].entries[i].lead = lead + 1
	}
}

// borrow says which blocks entries that have joined others begin with. They are the others' until the step is committed.
func (b *Step[B]) borrow() {
	for i := range b.entries {
		e := &b.entries[i]
		if e.lead == 0 {
			continue
		}
		of := &b.entries[e.lead-1]
		for j := range e.run.Kept.Blocks {
			e.run.Kept.Blocks[j] = of.at(e.run.Place(j, of.run))
		}
	}
}

// at is the entry's block at place i, as it will be once the step is committed, in a part with one store.
func (e *entry[B]) at(i int) block.Block {
	g, fresh := e.run.Written, e.fresh.Blocks
	if e.copies {
		if i == e.run.Len/e.run.Part.Config.BlockTokens() {
			return fresh[0]
		}
		fresh = fresh[1:]
	}
	if i < g.End() {
		return g.At(i)
	}
	return fresh[i-g.End()]
}
