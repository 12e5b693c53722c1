package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// content is what the blocks of a part hold of a sequence: rows of its tokens, or a state that is computed from them.
type content[B backend.Buffer] interface {
	// full is the number of a sequence's blocks that are full and stay as they are; of states, of entries of the prefix tree.
	full(s *Run[B]) int
	// resumable is Runs.Resumable of what the part has itself.
	resumable(s *Run[B], n int) int
	// at is where the run has block i of the sequence, to be with an entry of the tree; nil: it does not.
	at(s *Run[B], i int) *block.Block
	// got uses up what was set aside for blocks that the sequence was given, where it had n before.
	got(s *Run[B], had int)
	// withdraw is Runs.Withdraw.
	withdraw(s *Run[B])
	// pieces are those of a store of the part.
	pieces(of *Store[B]) (*Pieces, error)
}

// rows are keys and values of tokens.
type rows[B backend.Buffer] struct{ *Part[B] }

func (p rows[B]) full(s *Run[B]) int {
	return min(len(s.Kept.Blocks), s.Len/p.Config.BlockTokens())
}

func (p rows[B]) resumable(s *Run[B], n int) int { return p.Rule.Resumable(s.Gone, n) }

func (p rows[B]) at(s *Run[B], i int) *block.Block {
	if i >= p.sinks {
		if i -= s.Gone; i < p.sinks {
			return nil
		}
	}
	if i >= len(s.Kept.Blocks) {
		return nil
	}
	return &s.Kept.Blocks[i]
}

// got: a sequence that grows takes fewer blocks, and more after fewer, as in a chunk that has just begun.
func (p rows[B]) got(s *Run[B], had int) {
	if n := len(s.Kept.Blocks) - had; n != 0 {
		p.Kept.Lower(&s.Kept.Claim, n)
	}
}

func (p rows[B]) withdraw(s *Run[B]) { p.Written.Withdraw(s.Tail()) }
