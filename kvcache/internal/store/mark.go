package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Mark is a state of a part that is with an entry of the prefix tree, where others may go on: after so many tokens of a sequence.
type Mark struct {
	Tokens int
	block.Block
}

// marks calls visit with those of a part before the sequence's last token, and with their entries, in rising order.
func (s *Bodies[B]) marks(part int, visit func(m Mark, entry block.Block)) {
	if s.Parts[part].Stores.States == nil || s.all.Blocks.Groups() == nil {
		return
	}
	size := s.all.Config.EntryTokens()
	for i, e := range s.Path {
		m := Mark{(i + 1) * size, s.all.Blocks.Groups().At(e, part)[0]}
		if m.Block != (block.Block{}) && m.Tokens < s.Len() {
			visit(m, e)
		}
	}
}

// OrderMarks puts a stream behind what writes the marks of the sequence. The pool's lock is held.
func (s *Bodies[B]) OrderMarks(stream backend.Stream) (err error) {
	for i := range s.Parts {
		s.marks(i, func(_ Mark, entry block.Block) {
			if err == nil {
				err = s.all.Blocks.Writer(entry).Order(stream)
			}
		})
	}
	return err
}

// LendMarks returns the marks of a part that are written, and makes the sequence an owner of their blocks until ForgoArriving: who
// needs memory meanwhile takes other blocks. Those that others were promised the memory of are left out. The pool's lock is held.
func (s *Bodies[B]) LendMarks(part int) (all []Mark) {
	of := segmentOf[B]{of: s.Parts[part].Stores.Kept}
	s.marks(part, func(m Mark, entry block.Block) {
		if s.all.Blocks.Writer(entry) == nil && s.all.Blocks.Groups().Lend([]block.Block{m.Block}) == nil {
			all, of.blocks = append(all, m), append(of.blocks, m.Block)
		}
	})
	if len(all) > 0 {
		s.arriving = append(s.arriving, of)
	}
	return all
}

// KeepMarks leaves states that came with the sequence (see Arrive) with its entries, where those have none: who goes on after others
// finds them. The pool's lock is held.
func (s *Bodies[B]) KeepMarks(part int, all []Mark) {
	size := s.all.Config.EntryTokens()
	for _, m := range all {
		if i := m.Tokens/size - 1; i < len(s.Path) && s.all.Blocks.Groups().Checkpoint(s.Path[i], part, m.Block) {
			s.all.Blocks.Writes(nil, nil, s.Path[i])
		}
	}
}
