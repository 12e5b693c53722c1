package store

import (
	"cmp"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Reuse gives an empty sequence what was found of its prompt.
func (s *Bodies[B]) Reuse(f group.Found) {
	s.Path, s.Marks.Found, s.Marks.Branch = append(s.Path[:0], f.Path...), f.Tokens, f.Known
	for i := range s.Parts {
		s.Parts[i].Reuse(f.Runs[i].Blocks, f.Runs[i].Gone, f.Tokens)
	}
	if f.Last != (block.Block{}) {
		s.Parts[0].Fence = s.all.Blocks.Writer(f.Last).Hold()
	}
	s.inherit(f.Tokens)
	if last := len(s.Path) - 1; f.Tail > 0 && last >= 0 { // what comes next is this sequence's own
		s.Tail = s.Path[last]
		_ = s.all.Blocks.RetirePath(nil, s.Path[last:]) // taken a moment ago
		s.Path = s.Path[:last]
	}
	for _, e := range f.Path {
		if w := s.all.Blocks.Writer(e); !w.Reached() && !slices.Contains(s.Behind, w) {
			s.Behind = append(s.Behind, w.Hold())
		}
	}
}

// ReuseAnew is Reuse of a sequence that was given the beginning of what was found before, and no step since: it gives that
// back, or keeps it where what was found comes after it.
func (s *Bodies[B]) ReuseAnew(f group.Found) (err error) {
	if f.After > 0 {
		return s.Extend(f.Runs[0].Blocks)
	}
	had := make([]int, len(s.Parts))
	for i := range s.Parts {
		had[i] = len(s.Parts[i].Kept.Blocks)
		err = cmp.Or(err, s.Parts[i].keep(0))
	}
	err = cmp.Or(err, s.all.Blocks.RetirePath(s.Parts[0].Fence, s.Path))
	s.Path, s.Tail = s.Path[:0], block.Block{}
	s.forgetBehind()
	s.Past.Cut(&s.all.Fences, 0)
	f.Known = max(f.Known, s.Marks.Branch)
	s.Reuse(f)
	for i := range s.Parts {
		s.Parts[i].got(had[i])
	}
	return err
}

// Extend gives a sequence whose blocks, but for the beginning of one more, were found, blocks that come after the full ones. They are
// written. It is for pools whose entries are blocks: what the sequence has stays as it is.
func (s *Bodies[B]) Extend(blocks []block.Block) error {
	b := &s.Parts[0]
	full, had := b.Full(), len(b.Kept.Blocks)
	err := b.Stores.Kept.Cut(b.Kept, full, b.Fence)
	s.Past.Cut(&s.all.Fences, full*b.Stores.Config.BlockTokens())
	b.Kept.Blocks = append(b.Kept.Blocks, blocks...)
	b.Stores.Kept.Logical += len(blocks)
	b.Len = len(b.Kept.Blocks) * b.Stores.Config.BlockTokens()
	b.onlyKept()
	b.got(had)
	return err
}
