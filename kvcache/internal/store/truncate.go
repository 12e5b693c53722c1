package store

import (
	"cmp"
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// Resumable is the greatest length, at most n, to which Truncate can cut the sequence: after which every part has what the
// next tokens read, by itself or with an entry of the prefix tree. part is one that has it for no greater one.
func (s *Runs[B]) Resumable(n int) (length, part int) {
	groups, size := s.all.Blocks.Groups(), s.all.Config.EntryTokens()
	n = max(min(n, s.Len()), 0)
	for i := 0; i < len(s.In) && n > 0; i++ {
		m := s.In[i].resumable(n)
		if m < n {
			m = max(m, groups.Fits(i, s.Path, min(n, len(s.Path)*size)))
		}
		if m < n {
			n, part, i = m, i, -1 // and from the first part on
		}
	}
	return n, part
}

// resumable is Resumable of what the part has itself.
func (s *Run[B]) resumable(n int) int {
	return s.Part.content.resumable(s, n)
}

// Truncate keeps the first n tokens, a length that Resumable gives. With an error of the device the sequence is truncated all
// the same; where there are no blocks to take it is as it was.
func (s *Runs[B]) Truncate(n int) (err error) {
	groups := s.all.Blocks.Groups()
	var found []group.Run
	for i := range s.In {
		if s.In[i].resumable(n) == n {
			continue
		}
		if found == nil {
			found = make([]group.Run, len(s.In))
		}
		if found[i], err = groups.Own(i, s.Path, n); err != nil {
			for j := range i {
				err = errors.Join(err, groups.Release(found[j].Blocks))
			}
			return err
		}
	}
	s.Writers.Cut(&s.all.Fences, n)
	s.inherit(n)
	for i := range s.In {
		b := &s.In[i]
		if b.resumable(n) == n {
			err = cmp.Or(err, b.truncate(n))
			continue
		}
		err = cmp.Or(err, b.keep(0))
		b.Reuse(found[i].Blocks, found[i].Gone, n)
	}
	return cmp.Or(err, s.Leave(n))
}

// Leave notes that only the first n tokens are what the sequence's path says.
func (s *Runs[B]) Leave(n int) (err error) {
	s.restorePoints.Found = min(s.restorePoints.Found, n)
	if keep := n / s.all.Config.EntryTokens(); keep < len(s.Path) {
		err = s.all.Blocks.RetirePath(s.In[0].Fence, s.Path[keep:])
		s.Path = s.Path[:keep]
	}
	return err
}
