package store

import (
	"cmp"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

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
