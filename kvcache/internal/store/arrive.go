package store

import (
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// segmentOf is blocks of a store.
type segmentOf[B backend.Buffer] struct {
	of     *Store[B]
	blocks []block.Block
}

// Arrived is what a run gets that was filled from elsewhere: a record, for Arrive.
type Arrived struct {
	Len, Gone   int // of the run
	Segments    [MostStores]ArrivedSegment
	Checkpoints []block.Block // that were taken for it, for KeepCheckpoint of it or others
}

// ArrivedSegment is blocks that a segment gets, from a block of the run on.
type ArrivedSegment struct {
	From   int
	Blocks []Filled
}

// Filled is a block whose content is there. Shared: another sequence has it already.
type Filled struct {
	block.Block
	Shared bool
}

// TakeArriving takes n blocks of a store for an empty sequence, which are filled before it has them. The pool's lock is held.
func (s *Runs[B]) TakeArriving(of *Store[B], n int) ([]block.Block, error) {
	var claim block.Claim
	blocks, err := of.Take(&claim, s.In[0].Root, nil, n)
	if err == nil && n > 0 {
		s.arriving = append(s.arriving, segmentOf[B]{of, blocks})
	}
	return blocks, err
}

// ForgoArriving gives up what was taken. The pool's lock is held.
func (s *Runs[B]) ForgoArriving() (err error) {
	for _, g := range s.arriving {
		err = errors.Join(err, g.of.Forgo(g.blocks))
	}
	s.arriving = nil
	return err
}

// ownArriving notes the blocks that were taken for a sequence and are filled, and its marks.
func (s *Runs[B]) ownArriving(of []Books) {
	for _, g := range s.arriving {
		for i, all := range s.all.All {
			if at := slices.Index(all.Stores, g.of); at >= 0 {
				of[i][at].Own(g.blocks)
			}
		}
	}
}

// Arrive gives an empty sequence its blocks: those that were taken for it, and shares of others'. Its marks are given up with ForgoArriving.
// The pool's lock is held.
func (s *Runs[B]) Arrive(places []Arrived) (err error) {
	s.arriving = nil
	for i := range s.In {
		b, p := &s.In[i], &places[i]
		b.Len, b.Gone = p.Len, p.Gone
		for j := range b.Segments {
			err = errors.Join(err, b.Part.Stores[j].arrive(&b.Segments[j], p.Segments[j].From, p.Segments[j].Blocks))
		}
		if len(p.Checkpoints) > 0 {
			s.arriving = append(s.arriving, segmentOf[B]{b.Part.Kept, p.Checkpoints})
		}
	}
	return err
}

func (st *Store[B]) arrive(g *Segment, gone int, blocks []Filled) (err error) {
	g.From, g.Blocks = gone, g.Blocks[:0]
	for _, b := range blocks {
		if b.Shared {
			err = errors.Join(err, st.Share([]block.Block{b.Block})) // somebody has it
		}
		g.Blocks = append(g.Blocks, b.Block)
	}
	st.Logical += len(g.Blocks)
	return err
}
