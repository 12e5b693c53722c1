package store

import (
	"cmp"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Owned is what a step has of a store for a sequence until it is committed. Its blocks may be part of a list of all sequences.
type Owned struct {
	Blocks   []block.Block
	Claimed  int // size of the sequence's claim before the step
	promised int // how many of the blocks that claim had promised
}

// Own takes n blocks of a store for a sequence, or none.
func (st *Store[B]) Own(g *Segment, root prefix.Root, n int) (Owned, error) {
	if err := st.Reclaim(); err != nil {
		return Owned{}, err
	}
	o := Owned{Claimed: g.Claim.Blocks()}
	var err error
	if o.Blocks, err = st.TakeFor(g, &o, root, nil, n); err != nil {
		return Owned{}, err
	}
	return o, nil
}

// TakeFor appends n blocks of a store to dst for a sequence, all or none, and notes how many its claim had promised.
func (st *Store[B]) TakeFor(g *Segment, o *Owned, root prefix.Root, dst []block.Block, n int) ([]block.Block, error) {
	o.promised = min(n, o.Claimed)
	return st.TakeFit(&g.Claim, root, dst, n)
}

// Append gives a segment blocks after those that it has.
func (st *Store[B]) Append(g *Segment, blocks []block.Block) {
	g.Blocks = append(g.Blocks, blocks...)
	st.Logical += len(blocks)
}

// Bring gives a segment blocks again that come before those that it has.
func (st *Store[B]) Bring(g *Segment, blocks []block.Block) {
	g.Blocks, g.From = slices.Insert(g.Blocks, 0, blocks...), g.From-len(blocks)
	st.Logical += len(blocks)
}

// Replace makes b block i of the sequence, and gives up the one that it had there, after f.
func (st *Store[B]) Replace(g *Segment, i int, b block.Block, f *residency.Fence) error {
	at := i - g.From
	err := st.Retire(f, g.Blocks[at:at+1])
	g.Blocks[at] = b
	return err
}

// Renew gives a segment the blocks fresh around those of the sequence from one to another, which stay: its first one is
// block begin then. It gives up the others after f.
func (st *Store[B]) Renew(g *Segment, begin, from, to int, fresh []block.Block, f *residency.Fence) error {
	lead := 0 // new blocks before those that stay
	if to > from {
		lead = from - begin
	}
	from, to = min(from-g.From, len(g.Blocks)), min(to-g.From, len(g.Blocks))
	blocks := slices.Concat(fresh[:lead], g.Blocks[from:to], fresh[lead:])
	err := cmp.Or(st.RetireFor(g.back(), f, g.Blocks[:from]), st.RetireFor(g.back(), f, g.Blocks[to:]))
	st.Logical += len(blocks) - len(g.Blocks)
	g.From, g.Blocks = begin, append(g.Blocks[:0], blocks...)
	return err
}

// CutTaken keeps a segment's blocks before one of the sequence and gives up the others, which a step took, after f. As many
// as its claim had promised go back to it.
func (st *Store[B]) CutTaken(g *Segment, o *Owned, before int, f *residency.Fence) error {
	keep := before - g.From
	gone := g.Blocks[keep:]
	promised := min(max(o.promised-(len(o.Blocks)-len(gone)), 0), len(gone))
	g.Blocks = g.Blocks[:keep]
	st.Logical -= len(gone)
	return cmp.Or(st.RetireFor(&g.Claim, f, gone[:promised]), st.Retire(f, gone[promised:]))
}

// GiveBack retires, after f, blocks that a step took of a store for a sequence. Those that were promised to it are
// promised again as they come back.
func (st *Store[B]) GiveBack(g *Segment, o *Owned, blocks []block.Block, f *residency.Fence) error {
	promised := min(o.promised, len(blocks))
	o.Blocks, o.promised = nil, 0
	return cmp.Or(st.RetireFor(&g.Claim, f, blocks[:promised]), st.Retire(f, blocks[promised:]))
}
