package store

import (
	"cmp"
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Body is what a sequence has on the device: its segments, and what becomes of them.
type Body[B backend.Buffer] struct {
	Stores *Stores[B]
	Kept   Segment
	Recent Segment // with Storage.Residual: its last tokens
	Len    int     // tokens
	Root   prefix.Root
	Fence  *residency.Fence // the last work that used it
	Failed error            // of the device, which left its content undefined

	TakenKept, TakenFresh []block.Block // by work that is under way without the pool's lock

	Tables Tables[B]
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

// Reuse gives an empty sequence blocks that were found, with so many tokens.
func (s *Body[B]) Reuse(blocks []block.Block, tokens int) {
	s.Kept.Blocks, s.Len = blocks, tokens
	if s.Stores.Windowed() {
		s.Recent.Gone = len(blocks)
	}
	s.Stores.Kept.Logical += len(blocks)
	if n := len(blocks); n > 0 { // the step that wrote the last one came after the others'
		s.Fence = s.Stores.Kept.Writer(blocks[n-1]).Hold()
	}
}

// Fork makes an empty child another owner of all blocks.
func (s *Body[B]) Fork(child *Body[B]) error {
	p := s.Stores
	if err := p.Kept.share(&s.Kept, &child.Kept); err != nil {
		return err
	}
	if p.Windowed() {
		if err := p.Fresh.share(&s.Recent, &child.Recent); err != nil {
			return errors.Join(err, child.Cut(0))
		}
	}
	child.Len, child.Root, child.Fence = s.Len, s.Root, s.Fence.Hold()
	return nil
}

// Truncate keeps the first n tokens. The sequence is truncated also with an error.
func (s *Body[B]) Truncate(n int) error {
	err := s.Cut(s.Stores.Config.BlocksOf(n))
	s.Len = n
	return err
}

// Cut keeps the first blocks and gives up the references to the others once the
// sequence's last step is done.
func (s *Body[B]) Cut(keep int) error {
	p := s.Stores
	err := p.Kept.Cut(&s.Kept, keep, s.Fence)
	if p.Windowed() {
		err = cmp.Or(err, p.Fresh.Cut(&s.Recent, keep, s.Fence))
	}
	return err
}

// Release gives everything back. The sequence is released also with an error.
func (s *Body[B]) Release() error {
	p := s.Stores
	err := s.Cut(0)
	p.Kept.Cancel(&s.Kept.Claim)
	p.Fresh.Cancel(&s.Fresh().Claim)
	p.Fences.Drop(s.Fence)
	s.Len, s.Fence = 0, nil
	if s.Tables.made() {
		_ = p.Fences.Apart(func() error { s.Tables.Free(p.BE); return nil }) // the device waits as it must
	}
	return err
}

// Used replaces the sequence's fence by that of a later step.
func (s *Body[B]) Used(f *residency.Fence) { s.Stores.Fences.Replace(&s.Fence, f) }

// Touched makes this point of the stream the sequence's fence. The stream has been
// put after the one before. Where no fence can be had it waits.
func (s *Body[B]) Touched(stream backend.Stream) error {
	f, err := s.Stores.Fences.Record(s.Stores.BE, stream)
	if err != nil {
		return errors.Join(s.Stores.Fences.Observe(err), residency.Drain(stream))
	}
	s.Used(f)
	return nil
}

// FenceBehind is Touched for work that was not put after the sequence's fence. It
// does not change the sequence, so it need not wait for what others read of it; but
// whoever waits for the new fence waits for those, too.
func (s *Body[B]) FenceBehind(stream backend.Stream) error {
	if err := s.Fence.Order(stream); err != nil {
		return errors.Join(s.Stores.Fences.Observe(err), residency.Drain(stream))
	}
	return s.Touched(stream)
}

// Check reports what does not fit together in the sequence's segments.
func (s *Body[B]) Check(kept, fresh *residency.Books) error {
	kept.Own(s.Kept.Blocks)
	kept.Own(s.TakenKept)
	kept.Hold(s.Fence)
	if g, want := s.Fresh(), s.Stores.Config.BlocksOf(s.Len); g.End() != want {
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
