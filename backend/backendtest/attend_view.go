package backendtest

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// view is the position of a query and its end.
type view struct{ pos, end int }

// twin is a sequence that lies where another does, by a table.
type twin struct{ seq, of int }

// firstOf is the first token of a sequence.
func (s *attendSpec) firstOf(seq int) (first int) {
	for _, other := range s.seqs[:seq] {
		first += other.queries
	}
	return first
}

// viewer is query i of a sequence whose queries begin at token first.
func (s *attendSpec) viewer(seq, first, i int) viewer {
	context, n := s.seqs[seq].context, s.seqs[seq].queries
	at := func(i int) view {
		pos := context - n + i
		switch {
		case s.views != nil:
			return s.views[first+i]
		case s.mask.nonCausal:
			return view{pos, context}
		}
		return view{pos, pos + 1}
	}
	own := at(i)
	q := viewer{pos: own.pos, end: own.end, drafts: context - n}
	if s.tree != nil {
		q.bits = s.tree[first+i]
		for j := range n {
			q.depths = append(q.depths, at(j).pos)
		}
	}
	return q
}

// viewWords is what backend.Ragged.Views holds.
func (s *attendSpec) viewWords() (words []uint32) {
	for _, v := range s.views {
		words = append(words, uint32(v.pos), uint32(v.end))
	}
	return words
}

// treeWords is how many words a query has in backend.Ragged.Tree.
func (s *attendSpec) treeWords() (n int) {
	for _, row := range s.tree {
		n = max(n, len(row))
	}
	return n
}

// show uploads the views and the tree of a batch.
func (a *attendRun[B]) show(b *backend.Ragged[B]) {
	if a.views != nil {
		b.Views = backend.Some(constant(a.r, "views", backend.U32, a.viewWords()).buf)
	}
	if b.TreeWords = a.treeWords(); a.tree == nil {
		return
	}
	var words []uint32
	for _, row := range a.tree {
		words = append(words, slices.Concat(row, make([]uint32, b.TreeWords-len(row)))...)
	}
	b.Tree = backend.Some(constant(a.r, "tree", backend.U32, words).buf)
}

// double lays sequences where others lie.
func (a *attendRun[B]) double() {
	for _, t := range a.twins {
		if a.layout.table {
			copy(a.tables[t.seq], a.tables[t.of])
		}
	}
}

// seesKey reports whether a query of some sequence sees the slot of a key, where views or trees say.
func (a *attendRun[B]) seesKey(seq, key int) bool {
	if a.views == nil && a.tree == nil {
		return true
	}
	if a.seen == nil {
		a.seen = map[int]bool{}
		v := a.attendSpec.mask.visibility(a.cache.block)
		for seq := range a.seqs {
			first := a.firstOf(seq)
			for i := range a.seqs[seq].queries {
				q := a.viewer(seq, first, i)
				for key := range a.seqs[seq].context {
					if v.sees(q, key) {
						a.seen[a.slot(seq, key)] = true
					}
				}
			}
		}
	}
	return a.seen[a.slot(seq, key)]
}

// look gives a sequence's queries views; what has none of the others is causal.
func (s *attendSpec) look(seq int, at func(i int) view) {
	if s.views == nil {
		for _, seq := range s.seqs {
			for i := range seq.queries {
				pos := seq.context - seq.queries + i
				s.views = append(s.views, view{max(pos, 0), max(pos+1, 0)})
			}
		}
	}
	first := s.firstOf(seq)
	for i := range s.seqs[seq].queries {
		s.views[first+i] = at(i)
	}
}

// grow makes a sequence's tokens the drafts of a tree, of which each names its parent among those before
// it, or −1. With views they are at their depths.
func (s *attendSpec) grow(seq int, parents ...int) {
	if s.tree == nil {
		s.tree = make([][]uint32, s.tokens())
	}
	first, n := s.firstOf(seq), s.seqs[seq].queries
	if len(parents) != n {
		panic(fmt.Sprintf("%d parents of %d drafts", len(parents), n))
	}
	depths := make([]int, n)
	for i, parent := range parents {
		row := make([]uint32, i/32+1)
		if parent >= 0 {
			copy(row, s.tree[first+parent])
			depths[i] = depths[parent] + 1
		}
		row[i/32] |= 1 << (i % 32)
		s.tree[first+i] = row
	}
	if s.views != nil {
		before := s.seqs[seq].context - n
		s.look(seq, func(i int) view { return view{before + depths[i], before + depths[i] + 1} })
	}
}

// wants skips a case whose masks the device does not list.
func (r *rig[B]) wants(s *attendSpec) {
	caps := r.be.Caps()
	switch {
	case s.mask.chunk > 0 && !caps.Chunk:
		r.skip("the device lists no chunks")
	case (s.views != nil || s.mask.nonCausal && s.mask.window > 0) && !caps.Views:
		r.skip("the device lists no views")
	case s.treeWords() > caps.TreeWords:
		r.skip("the device lists trees of %d words", caps.TreeWords)
	}
}
