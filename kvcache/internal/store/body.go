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

// Body is what a sequence has on the device in a part: its segments, and what becomes of them. Where a window or chunk has
// left blocks behind they are cut out, and the body is that of a sequence which is shorter by as many tokens. What
// queries see depends on the distance of tokens, and on which are the first ones, so it is the same. How far sinks are is not: a
// configuration that asks for it is refused (ALiBi), or has blocks stay until it makes no difference (Storage.Residual).
type Body[B backend.Buffer] struct {
	Of     *Bodies[B]
	Stores *Stores[B]
	Kept   Segment
	Recent Segment // with Storage.Residual: its last tokens
	Len    int     // tokens
	Gone   int     // blocks that are cut out behind those of sinks
	Root   prefix.Root
	Fence  *residency.Fence // the last work that used it

	TakenKept, TakenFresh []block.Block // by work that is under way without the pool's lock

	Tables Tables[B]
}

// Total is the tokens of the sequence.
func (s *Body[B]) Total() int { return s.Len + s.Gone*s.Stores.Config.BlockTokens() }

// Cut is the tokens that are cut out, and those of sinks before them.
func (s *Body[B]) Cut() (sinks, gone int) {
	r := &s.Stores.Rule
	return r.SinkBlocks() * r.Block, s.Gone * r.Block
}

// Fresh is the segment that steps write to.
func (s *Body[B]) Fresh() *Segment {
	if s.Stores.Windowed() {
		return &s.Recent
	}
	return &s.Kept
}

// Full is the number of the sequence's blocks that are full and stay as they are.
func (s *Body[B]) Full() int {
	return min(len(s.Kept.Blocks), s.Len/s.Stores.Config.BlockTokens())
}

// Tail is the block that the next token goes into, the zero Block if the step takes that.
func (s *Body[B]) Tail() block.Block {
	if s.Stores.States != nil {
		if s.Len == 0 {
			return block.Block{}
		}
		return s.Kept.Blocks[0]
	}
	g, slots := s.Fresh(), s.Stores.Config.BlockTokens()
	i := s.Len/slots - g.Gone
	if s.Len%slots == 0 || i < 0 {
		return block.Block{}
	}
	return g.Blocks[i]
}

// TailShared reports whether the block that the next token goes into is not the
// sequence's alone to write: others own it, or the prefix tree offers it to them.
func (s *Body[B]) TailShared() (bool, error) {
	alone, err := s.Stores.Fresh.Writable(s.Tail())
	return !alone, err
}

// Take appends n new blocks, to write to, of the sequence's to dst, all or none.
func (s *Body[B]) Take(dst []block.Block, n int) ([]block.Block, error) {
	return s.Stores.Fresh.Take(&s.Fresh().Claim, s.Root, dst, n)
}

// Reuse gives an empty sequence blocks that were found, with so many tokens of which blocks are gone.
func (s *Body[B]) Reuse(blocks []block.Block, gone, tokens int) {
	s.Kept.Blocks, s.Gone, s.Len = append(s.Kept.Blocks[:0], blocks...), gone, tokens-gone*s.Stores.Config.BlockTokens()
	if s.Stores.Windowed() {
		s.Recent.Gone = len(blocks)
	}
	s.Stores.Kept.Logical += len(blocks)
}

// Fork makes an empty child another owner of all blocks.
func (s *Body[B]) Fork(child *Body[B]) error {
	p := s.Stores
	if err := p.Kept.share(&s.Kept, &child.Kept); err != nil {
		return err
	}
	if p.Windowed() {
		if err := p.Fresh.share(&s.Recent, &child.Recent); err != nil {
			return errors.Join(err, child.keep(0))
		}
	}
	child.Len, child.Gone, child.Root, child.Fence = s.Len, s.Gone, s.Root, s.Fence.Hold()
	return nil
}

// Truncate keeps the first n tokens of the sequence, after which it can go on: see group.Rule.Reaches. The sequence is
// truncated also with an error.
func (s *Body[B]) Truncate(n int) error {
	if n == 0 {
		s.Gone = 0
	}
	n -= s.Gone * s.Stores.Config.BlockTokens()
	err := s.keep(s.blocksOf(n))
	s.Len = n
	return err
}

// blocksOf is the number of blocks of n tokens that are not cut out.
func (s *Body[B]) blocksOf(n int) int {
	if s.Stores.States != nil {
		return min(n, 1)
	}
	return s.Stores.Config.BlocksOf(n)
}

// Slide gives up, behind f, what no later query reads: see group.Rule. Of that some stays findable: see group.Marks.
func (s *Body[B]) Slide(f *residency.Fence, m group.Marks) error {
	r, p := &s.Stores.Rule, s.Stores
	if !p.Slides() {
		return nil
	}
	n := r.Gone(s.Total()) - s.Gone
	if n <= 0 {
		return nil
	}
	at := r.SinkBlocks()
	if g := p.Kept.Groups(); g != nil {
		for i := at; i < min(at+n, len(s.Kept.Blocks)); i++ {
			g.Drop(p.Number, i+s.Gone, s.Kept.Blocks[i], m)
		}
	}
	err := p.Kept.Excise(&s.Kept, at, n, f)
	if p.Windowed() {
		err = cmp.Or(err, p.Fresh.Excise(&s.Recent, at, n, f))
	}
	s.Gone, s.Len = s.Gone+n, s.Len-n*p.Config.BlockTokens()
	return err
}

// keep keeps the first blocks and gives up the references to the others once the
// sequence's last step is done.
func (s *Body[B]) keep(keep int) error {
	p := s.Stores
	err := p.Kept.Cut(&s.Kept, keep, s.Fence)
	if p.Windowed() {
		err = cmp.Or(err, p.Fresh.Cut(&s.Recent, keep, s.Fence))
	}
	return err
}

// Release gives everything back. The sequence is released also with an error.
func (s *Body[B]) Release() error {
	p, err := s.Stores, s.leave()
	if s.Tables.made() {
		_ = p.Fences.Apart(func() error { s.Tables.Free(p.BE); return nil }) // the device waits as it must
	}
	return err
}

// leave gives back all blocks, also with an error.
func (s *Body[B]) leave() error {
	p := s.Stores
	err := s.keep(0)
	p.Kept.Cancel(&s.Kept.Claim)
	p.Fresh.Cancel(&s.Fresh().Claim)
	p.Fences.Drop(s.Fence)
	s.Len, s.Gone, s.Fence = 0, 0, nil
	return err
}

// Check reports what does not fit together in the sequence's segments.
func (s *Body[B]) Check(kept, fresh *residency.Books) error {
	kept.Own(s.Kept.Blocks)
	kept.Own(s.TakenKept)
	kept.Hold(s.Fence)
	if g, want := s.Fresh(), s.blocksOf(s.Len); g.End() != want {
		return fault("a sequence of %d tokens has blocks up to %d, not %d", s.Len, g.End(), want)
	}
	if s.Stores.Windowed() {
		fresh.Own(s.Recent.Blocks)
		fresh.Own(s.TakenFresh)
		if have := len(s.Kept.Blocks); have < s.Recent.Gone || have > s.Recent.End() {
			return fault("of %d blocks of a sequence the first %d are quantized, and the first %d nowhere else", s.Recent.End(), have, s.Recent.Gone)
		}
	}
	return nil
}
