package store

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Checkpoint is a state of a part that is with an entry of the prefix tree, where others may go on: after a number of tokens of a sequence.
type Checkpoint struct {
	Tokens int
	block.Block
}

// checkpoints calls visit, in rising order, with the entries before the sequence's last token that have the states of all parts, and with those.
func (s *Runs[B]) checkpoints(visit func(entry block.Block, tokens int, states []block.Block)) {
	groups, size := s.all.Blocks.Groups(), s.all.Config.EntryTokens()
entries:
	for i, e := range s.Path {
		var states []block.Block
		for _, part := range s.all.states {
			state := groups.Block(e, part, 0)
			if state == (block.Block{}) {
				continue entries
			}
			states = append(states, state)
		}
		if n := (i + 1) * size; n < s.Len() && len(states) > 0 {
			visit(e, n, states)
		}
	}
}

// OrderCheckpoints puts a stream after what writes the checkpoints of the sequence. The pool's lock is held.
func (s *Runs[B]) OrderCheckpoints(stream backend.Stream) (err error) {
	s.checkpoints(func(entry block.Block, _ int, _ []block.Block) {
		if err == nil {
			err = s.all.Blocks.Writer(entry).Order(stream)
		}
	})
	return err
}

// LendCheckpoints returns the checkpoints of each part that are written, the first ones, of at most that many blocks. It makes the sequence an
// owner of those until ForgoArriving: a step that needs memory meanwhile takes other blocks. Those whose memory is promised to others are left out. The
// pool's lock is held.
func (s *Runs[B]) LendCheckpoints(most int) (blocks int, all [][]Checkpoint) {
	all = make([][]Checkpoint, len(s.In))
	s.checkpoints(func(entry block.Block, tokens int, states []block.Block) {
		if blocks+len(states) > most || !s.all.Blocks.Defined(entry) {
			return
		}
		if _, err := s.all.Blocks.Groups().Hold(states); err != nil {
			return
		}
		blocks += len(states)
		s.arriving = append(s.arriving, segmentOf[B]{s.In[0].Part.Kept, states})
		for _, part := range s.all.states {
			all[part], states = append(all[part], Checkpoint{tokens, states[0]}), states[1:]
		}
	})
	return blocks, all
}

// KeepCheckpoint leaves a state of a part with the entry of the sequence that it is after, where that has none: a sequence that goes on there finds it. The
// pool's lock is held.
func (s *Runs[B]) KeepCheckpoint(part int, m Checkpoint) {
	i := m.Tokens/s.all.Config.EntryTokens() - 1
	if i < len(s.Path) && s.all.Blocks.Groups().Checkpoint(s.Path[i], part, m.Block) {
		s.all.Blocks.Writes(nil, nil, s.Path[i])
	}
}
