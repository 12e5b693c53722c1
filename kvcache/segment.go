package kvcache

import (
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// segment is a run of a sequence's tokens in one store: whole blocks of them, but for the last one
// of the sequence. Segments of a sequence may have blocks in common; which of the two a query reads
// is a function of its position (see window.go).
type segment struct {
	gone   int           // leading blocks of the sequence that are not in this store any more
	blocks []block.Block // those from gone on
	claim  block.Claim
	// reserved says that what is given up in front comes back to the claim: see Pool.Reserve.
	reserved bool
}

// end is the number of the sequence's blocks up to the segment's end.
func (g *segment) end() int { return g.gone + len(g.blocks) }

// numbers appends the numbers of the segment's blocks.
func (g *segment) numbers(dst []uint32) []uint32 {
	for _, b := range g.blocks {
		dst = append(dst, b.ID)
	}
	return dst
}

// fresh is the segment that steps write to.
func (s *Sequence[B]) fresh() *segment {
	if s.pool.windowed() {
		return &s.recent
	}
	return &s.kept
}

// share makes child another owner of the blocks of a segment.
func (st *store[B]) share(of, child *segment) error {
	if err := st.Share(of.blocks); err != nil {
		return err
	}
	child.gone, child.blocks = of.gone, append(child.blocks[:0], of.blocks...)
	st.logical += len(child.blocks)
	return nil
}

// cut keeps a segment's blocks before one of the sequence and gives up the others behind f.
func (st *store[B]) cut(g *segment, before int, f *residency.Fence) error {
	keep := max(before-g.gone, 0)
	g.gone = min(g.gone, before)
	if keep >= len(g.blocks) {
		return nil
	}
	gone := g.blocks[keep:]
	g.blocks = g.blocks[:keep]
	st.logical -= len(gone)
	return st.Retire(f, gone)
}

// drop gives up a segment's blocks before one of the sequence, behind f.
func (st *store[B]) drop(g *segment, before int, f *residency.Fence) error {
	n := min(before-g.gone, len(g.blocks))
	if n <= 0 {
		return nil
	}
	var claim *block.Claim
	if g.reserved {
		claim = &g.claim
	}
	err := st.RetireFor(claim, f, g.blocks[:n])
	st.logical -= n
	g.blocks, g.gone = append(g.blocks[:0], g.blocks[n:]...), g.gone+n
	return err
}

// owned is what a step has of a store until it is committed.
type owned struct {
	blocks  []block.Block
	claimed int // size of the sequence's claim before the step
}

// giveBack returns what a step took of a store for an entry and restores the claim.
func (st *store[B]) giveBack(g *segment, o *owned, f *residency.Fence) error {
	o.blocks = nil
	if g.claim.Blocks() >= o.claimed {
		return nil
	}
	// The claim's blocks come back with the fence; the promise must not lapse meanwhile.
	err := f.Wait()
	err = firstOf(err, st.Reclaim())
	return firstOf(err, st.Restore(&g.claim, o.claimed))
}
