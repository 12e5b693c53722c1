package store

import (
	"cmp"
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Run is what a sequence has on the device in a part of the layers: an ordered list of segments, one for each store of the part, and
// what becomes of them. A pool of one part with one store is the trivial case.
//
// Blocks that a window or a chunk has given up are cut out, and the run is that of a sequence which is shorter by as many tokens. What
// queries see depends on the distance of tokens, and on which are the first ones, so it is the same. How far sinks are is not: a
// configuration that asks for it is refused (ALiBi), or has blocks stay until it makes no difference (Storage.Residual).
type Run[B backend.Buffer] struct {
	Of       *Runs[B]
	Part     *Part[B]
	Segments []Segment // one for each store
	Kept     *Segment  // the first
	Written  *Segment  // the last, that steps write to
	Len      int       // tokens
	Gone     int       // blocks that are cut out after those of sinks
	Root     prefix.Root
	Fence    *residency.Fence // the last work that used it

	tables tables[B]

	inline [MostStores]Segment
}

// begin makes s, which stays where it is, an empty one.
func (s *Run[B]) begin(of *Runs[B], p *Part[B], root prefix.Root) {
	*s = Run[B]{Of: of, Part: p, Root: root}
	s.Segments = s.inline[:len(p.Stores)]
	s.Kept, s.Written = &s.Segments[0], &s.Segments[len(p.Stores)-1]
}

// each calls do with each segment and its store, and returns the first error.
func (s *Run[B]) each(do func(st *Store[B], g *Segment) error) (err error) {
	for i := range s.Segments {
		err = cmp.Or(err, do(s.Part.Stores[i], &s.Segments[i]))
	}
	return err
}

// onlyKept notes that all blocks are in the first segment.
func (s *Run[B]) onlyKept() {
	for i := 1; i < len(s.Segments); i++ {
		s.Segments[i].From = len(s.Kept.Blocks)
	}
}

// Total is the tokens of the sequence.
func (s *Run[B]) Total() int { return s.Len + s.Gone*s.Part.Config.BlockTokens() }

// Cut is the tokens that are cut out, and those of sinks before them.
func (s *Run[B]) Cut() (sinks, gone int) {
	r := &s.Part.Rule
	return s.Part.sinks * r.Block, s.Gone * r.Block
}

// Full is the number of the sequence's blocks that are full and stay as they are; in a part with states, of entries of the prefix tree.
func (s *Run[B]) Full() int { return s.Part.content.full(s) }

// Tail is the block that the next token goes into, the zero Block if the step takes that.
func (s *Run[B]) Tail() block.Block {
	g := s.Written
	i := s.Part.Open(s.Len) - g.From
	if i < 0 {
		return block.Block{}
	}
	return g.Blocks[i]
}

// TailShared reports whether the block that the next token goes into is not the
// sequence's alone to write: others own it, or the prefix tree offers it to them.
func (s *Run[B]) TailShared() (bool, error) {
	alone, err := s.Part.Written.Writable(s.Tail())
	return !alone, err
}

// Take appends n new blocks, to write to, of the sequence's to dst, all or none.
func (s *Run[B]) Take(dst []block.Block, n int) ([]block.Block, error) {
	return s.Part.Written.Take(&s.Written.Claim, s.Root, dst, n)
}

// Reuse gives a run without blocks those that were found: it has that many tokens then, of which blocks are gone.
func (s *Run[B]) Reuse(blocks []block.Block, gone, tokens int) {
	s.Gone, s.Len = gone, tokens-gone*s.Part.Config.BlockTokens()
	s.Part.Kept.Append(s.Kept, blocks)
	s.onlyKept()
}

// Grow notes that the sequence has n tokens more, in blocks that it has.
func (s *Run[B]) Grow(n int) { s.Len += n }

// fork makes an empty child another owner of all blocks.
func (s *Run[B]) fork(child *Run[B]) error {
	for i := range s.Segments {
		if err := s.Part.Stores[i].share(&s.Segments[i], &child.Segments[i]); err != nil {
			return errors.Join(err, child.keep(0))
		}
	}
	child.Len, child.Gone, child.Root, child.Fence = s.Len, s.Gone, s.Root, s.Fence.Hold()
	return nil
}

// truncate keeps the first n tokens of the sequence, after which it can go on: see group.Rule.Reaches. The sequence is
// truncated also with an error.
func (s *Run[B]) truncate(n int) error {
	if n == 0 {
		s.Gone = 0
	}
	n -= s.Gone * s.Part.Config.BlockTokens()
	err := s.keep(s.Part.BlocksOf(n))
	s.Len = n
	return err
}

// slide gives up, after f, what no later query reads: see group.Rule. Of that some stays findable: see group.RestorePoints.
func (s *Run[B]) slide(f *residency.Fence, m group.RestorePoints) error {
	p := s.Part
	n := p.Rule.Gone(s.Total()) - s.Gone
	if n <= 0 {
		return nil
	}
	at := p.sinks
	for i := at; i < min(at+n, len(s.Kept.Blocks)); i++ {
		p.Kept.Groups().Drop(p.number, i+s.Gone, s.Kept.Blocks[i], m)
	}
	err := s.each(func(st *Store[B], g *Segment) error { return st.excise(g, at, n, f) })
	s.Gone, s.Len = s.Gone+n, s.Len-n*p.Config.BlockTokens()
	return err
}

// keep keeps the first blocks and gives up the references to the others once the
// sequence's last step is done.
func (s *Run[B]) keep(keep int) error {
	return s.each(func(st *Store[B], g *Segment) error { return st.Cut(g, keep, s.Fence) })
}

// release gives everything back. The sequence is released also with an error.
func (s *Run[B]) release() error {
	p, err := s.Part, s.leave()
	if s.tables.made() {
		_ = p.Fences.Apart(func() error { s.tables.free(p.BE); return nil }) // the device waits as it must
	}
	return err
}

// leave gives back all blocks, also with an error.
func (s *Run[B]) leave() error {
	p := s.Part
	err := s.keep(0)
	for i := range s.Segments {
		p.Stores[i].Cancel(&s.Segments[i].Claim)
	}
	p.Fences.Drop(s.Fence)
	s.Len, s.Gone, s.Fence = 0, 0, nil
	return err
}

// check reports what does not fit together in the sequence's segments.
func (s *Run[B]) check(of Books) error {
	of[0].Hold(s.Fence)
	for i := range s.Segments {
		if s.Of.joined == 0 {
			of[i].Own(s.Segments[i].Blocks)
		}
		of[i].Own(s.Segments[i].taken)
	}
	if want := s.Part.BlocksOf(s.Len); s.Written.End() != want {
		return fault("a sequence of %d tokens has blocks up to %d, not %d", s.Len, s.Written.End(), want)
	}
	for i := 1; i < len(s.Segments); i++ {
		if have, next := s.Segments[i-1].End(), &s.Segments[i]; have < next.From || have > next.End() {
			return fault("of %d blocks of a sequence the first %d are sealed, and the first %d nowhere else", next.End(), have, next.From)
		}
	}
	return nil
}
