package store

import (
	"cmp"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// Segment is a run of a sequence's tokens in one store: whole blocks of them, but for the last one
// of the sequence. Segments of a sequence may have blocks in common; which of the two a query reads
// is a function of its position (see package step). Others read it; what changes it is a method of the store or of the run.
type Segment struct {
	From   int           // leading blocks of the sequence that are not in this store any more
	Blocks []block.Block // those from From on
	Claim  block.Claim
	taken  []block.Block // by work that is under way without the pool's lock
	// reserved says that what is given up in front comes back to the claim: see Parts.Reserve.
	reserved bool
}

// End is the number of the sequence's blocks up to the segment's end.
func (g *Segment) End() int { return g.From + len(g.Blocks) }

// At is block i of the sequence, which the segment has.
func (g *Segment) At(i int) block.Block { return g.Blocks[i-g.From] }

// back is the claim that what is given up in front comes back to; nil: to none.
func (g *Segment) back() *block.Claim {
	if g.reserved {
		return &g.Claim
	}
	return nil
}

// Places appends the numbers that kernels have for the sequence's blocks up to a segment's end, 0 for those that are not in
// the store.
func (st *Store[B]) Places(dst []uint32, g *Segment) []uint32 {
	for range g.From * st.each {
		dst = append(dst, 0)
	}
	return st.numbers(dst, g.Blocks)
}

// share makes child another owner of the blocks of a segment.
func (st *Store[B]) share(of, child *Segment) error {
	if err := st.Share(of.Blocks); err != nil {
		return err
	}
	child.From, child.Blocks = of.From, append(child.Blocks[:0], of.Blocks...)
	st.Logical += len(child.Blocks)
	return nil
}

// Cut keeps a segment's blocks before one of the sequence and gives up the others after f.
func (st *Store[B]) Cut(g *Segment, before int, f *residency.Fence) error {
	keep := max(before-g.From, 0)
	g.From = min(g.From, before)
	if keep >= len(g.Blocks) {
		return nil
	}
	gone := g.Blocks[keep:]
	g.Blocks = g.Blocks[:keep]
	st.Logical -= len(gone)
	return st.Retire(f, gone)
}

// Drop gives up a segment's blocks before one of the sequence, after f.
func (st *Store[B]) Drop(g *Segment, before int, f *residency.Fence) error {
	n := min(before-g.From, len(g.Blocks))
	if n <= 0 {
		return nil
	}
	err := st.RetireFor(g.back(), f, g.Blocks[:n])
	st.Logical -= n
	g.Blocks, g.From = append(g.Blocks[:0], g.Blocks[n:]...), g.From+n
	return err
}

// excise cuts n blocks of the sequence out from one on, and gives up those of them that the segment has, after f. Those
// after them are as many further in front.
func (st *Store[B]) excise(g *Segment, at, n int, f *residency.Fence) error {
	from, to := min(max(at-g.From, 0), len(g.Blocks)), min(max(at+n-g.From, 0), len(g.Blocks))
	g.From -= min(max(g.From-at, 0), n)
	if from == to {
		return nil
	}
	err := st.RetireFor(g.back(), f, g.Blocks[from:to])
	st.Logical -= to - from
	g.Blocks = append(g.Blocks[:from], g.Blocks[to:]...)
	return err
}

// Exchange replaces the sequence's blocks in each store by those of to; tokens and gone are its length and its cut-out blocks
// afterwards. Blocks that it no longer has go back after its last step.
func (s *Run[B]) Exchange(tokens, gone int, to ...Segment) (err error) {
	for i := range to {
		err = cmp.Or(err, s.Part.Stores[i].exchange(&s.Segments[i], to[i].From, to[i].Blocks, s.Fence))
	}
	s.Len, s.Gone = tokens, gone
	return err
}

// Working notes what work that is under way without the pool's lock has taken of each store for the sequence; a zero taken says that the work is done.
func (s *Run[B]) Working(taken [MostStores][]block.Block) {
	for i := range s.Segments {
		s.Segments[i].taken = taken[i]
	}
}

// exchange gives a segment other blocks, from one of the sequence on, and gives up those that are not
// among them.
func (st *Store[B]) exchange(g *Segment, gone int, blocks []block.Block, f *residency.Fence) error {
	stays := make(map[block.Block]bool, len(blocks))
	for _, b := range blocks {
		stays[b] = true
	}
	var left []block.Block
	for _, b := range g.Blocks {
		if !stays[b] {
			left = append(left, b)
		}
	}
	st.Logical += len(blocks) - len(g.Blocks)
	g.From, g.Blocks = gone, append(g.Blocks[:0], blocks...)
	return st.Retire(f, left)
}
