package store

import (
	"cmp"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Prompt notes how many tokens the prompt has: a sequence that asks the same again computes the last of them anew.
func (s *Runs[B]) Prompt(tokens int) { s.restorePoints.End = max(tokens-1, 0) }

// Reuse gives an empty sequence what was found of its prompt.
func (s *Runs[B]) Reuse(f group.Found) {
	s.Path, s.restorePoints.Found, s.restorePoints.Branch = append(s.Path[:0], f.Path...), f.Tokens, f.Known
	for i := range s.In {
		s.In[i].Reuse(f.Runs[i].Blocks, f.Runs[i].Gone, f.Tokens)
	}
	if f.Last != (block.Block{}) {
		s.In[0].Fence = s.all.Blocks.Writer(f.Last).Hold()
	}
	s.inherit(f.Tokens)
	if last := len(s.Path) - 1; f.Tail > 0 && last >= 0 { // what comes next is this sequence's own
		s.partial = s.Path[last]
		_ = s.all.Blocks.RetirePath(nil, s.Path[last:]) // taken a moment ago
		s.Path = s.Path[:last]
	}
	for _, e := range f.Path {
		if w := s.all.Blocks.Writer(e); !w.Reached() && !slices.Contains(s.waitFor, w) {
			s.waitFor = append(s.waitFor, w.Hold())
		}
	}
}

// ReuseAnew is Reuse of a sequence that was given the beginning of what was found before, and no step since: it gives that
// back, or keeps it where what was found comes after it.
func (s *Runs[B]) ReuseAnew(f group.Found) (err error) {
	if f.After > 0 {
		return s.Extend(f.Runs[0].Blocks)
	}
	had := make([]int, len(s.In))
	for i := range s.In {
		had[i] = len(s.In[i].Kept.Blocks)
	}
	err = s.empty()
	f.Known = max(f.Known, s.restorePoints.Branch)
	s.Reuse(f)
	for i := range s.In {
		s.In[i].got(had[i])
	}
	return err
}

// empty gives back what a sequence was given, which has had no step since.
func (s *Runs[B]) empty() (err error) {
	for i := range s.In {
		err = cmp.Or(err, s.In[i].keep(0))
	}
	err = cmp.Or(err, s.all.Blocks.RetirePath(s.In[0].Fence, s.Path))
	for i := range s.In {
		s.all.Fences.Replace(&s.In[i].Fence, nil)
	}
	s.Path, s.partial = s.Path[:0], block.Block{}
	s.forgetWaits()
	s.Writers.Cut(&s.all.Fences, 0)
	return err
}

// Extend gives a sequence whose blocks, but for the beginning of one more, were found, blocks that come after the full ones. They are
// written. It is for pools whose entries are blocks: what the sequence has stays as it is.
func (s *Runs[B]) Extend(blocks []block.Block) error {
	b := &s.In[0]
	full, had := b.Full(), len(b.Kept.Blocks)
	err := b.Part.Kept.Cut(b.Kept, full, b.Fence)
	s.Writers.Cut(&s.all.Fences, full*b.Part.Config.BlockTokens())
	b.Part.Kept.Append(b.Kept, blocks)
	b.Len = len(b.Kept.Blocks) * b.Part.Config.BlockTokens()
	b.onlyKept()
	b.got(had)
	return err
}
