package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Withdraw takes the blocks that the next tokens go into out of the prefix tree where nobody else has them: see
// residency.Blocks.Withdraw.
func (s *Runs[B]) Withdraw() {
	for i := range s.In {
		s.In[i].Part.content.withdraw(&s.In[i])
	}
}

// Publish puts the entries that tokens fill, which end with entry full, into the prefix tree, after a step that wrote
// their blocks, and returns how many of them are there then.
func (s *Runs[B]) Publish(f *residency.Fence, at prefix.Path, tokens []uint32, full int) (int, error) {
	size := s.all.Config.EntryTokens()
	s.all.offered = offer[B]{s, full*size - (len(tokens)+size-1)/size*size}
	n, path, err := s.all.Blocks.Publish(f, &s.Writers, s.Path, at, tokens, s.all.held)
	s.Path, s.all.offered.of = path, nil
	if err == nil && len(path) == full && s.Len() == full*size && s.all.Blocks.Groups().Keeps(full, s.restorePoints) {
		s.checkpoint(f)
	}
	return n, err
}

// offer is what a sequence has from a token on.
type offer[B backend.Buffer] struct {
	of   *Runs[B]
	from int
}

// block is where a part has one that is kept: the i-th of the offer; nil: it has not.
func (o *offer[B]) block(part, i int) *block.Block {
	b := &o.of.In[part]
	return b.Part.content.at(b, o.from/b.Part.Rule.Block+i)
}

// PublishEnd is Publish of the tokens that the sequence ends with, fewer than fill an entry, and none after them: the states
// after the last one stay with them.
func (s *Runs[B]) PublishEnd(at prefix.Path, tokens []uint32) (err error) {
	f, full := s.In[0].Fence, s.Len()/s.all.Config.EntryTokens()
	if len(tokens) > 0 {
		// Only whole blocks are sealed. No step of this sequence will come after the one that wrote tokens, and Publish might add blocks to what they write.
		if s.all.seals || s.all.partly && !s.all.Blocks.KnownWritten(f, at, tokens) {
			return nil
		}
		_, err = s.Publish(f, at, tokens, full+1)
		full++
	}
	if err == nil && len(s.Path) == full && s.all.Blocks.Written(f, s.Path[full-1]) {
		s.checkpoint(f)
	}
	return err
}

// Piece is how many of the next n tokens there are up to where a state is kept.
func (s *Runs[B]) Piece(n int) int {
	if len(s.all.states) == 0 {
		return n
	}
	size := s.all.Config.EntryTokens()
	for e := s.Len()/size + 1; e*size-s.Len() < n; e++ {
		if s.all.Blocks.Groups().Keeps(e, s.restorePoints) {
			return e*size - s.Len()
		}
	}
	return n
}

// checkpoint leaves the states after the sequence's last token, which ends the last entry of its path, with that entry.
// The sequence writes copies from here on.
func (s *Runs[B]) checkpoint(f *residency.Fence) {
	e := s.Path[len(s.Path)-1]
	for _, i := range s.all.states {
		if s.all.Blocks.Groups().Checkpoint(e, i, s.In[i].Kept.Blocks[0]) {
			s.all.Blocks.Writes(f, &s.Writers, e)
		}
	}
}
