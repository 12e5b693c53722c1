package store

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// A part of layers with a state (Mamba, linear attention, convolutions) has one block of each sequence: in every lane
// the state of a layer after all of the sequence's tokens. A step reads it and writes it there. Whoever shares it with
// others, or with the prefix tree, which has it as a checkpoint, gets a copy first.

// States is where the states of a part's layers lie.
type States[B backend.Buffer] struct {
	Layers []B // of each layer the memory that its states are in, as 4-byte words
	Bytes  int // of a state
	Stride int // bytes from the state of a block to that of the next
}

// newStates are the stores of a part with states, which has nothing but those.
func newStates[B backend.Buffer](be backend.Backend[B], part *config.Part, fences *residency.Fences, in *lanes[B]) *Part[B] {
	p := &Part[B]{BE: be, Config: part.Config, Rule: part.Rule, Fences: fences,
		States: &States[B]{Bytes: part.State, Stride: int(in.keys + in.vals)}}
	p.content, p.tokens, p.most = states[B]{p}, math.MaxInt32, 1 // a block is for all of a sequence
	p.have(1)
	for l := range part.Layers {
		p.States.Layers = append(p.States.Layers, in.lanes[l].keys)
	}
	return p
}

// Stateful is a part whose layers have states; nil: none do.
func (p *Parts[B]) Stateful() *Part[B] {
	if len(p.states) == 0 {
		return nil
	}
	return p.All[p.states[0]]
}

// Stateful is Parts.Stateful of the sequence's parts.
func (s *Runs[B]) Stateful() *Part[B] { return s.all.Stateful() }

// StatesOf is where the states of a layer of the model lie, those of its part; nil: it has none.
func (p *Parts[B]) StatesOf(layer int) *States[B] {
	if at := p.Layers[layer]; at.Part >= 0 {
		return p.All[at.Part].States
	}
	return nil
}

// states are those of sequences, each in one block.
type states[B backend.Buffer] struct{ *Part[B] }

func (p states[B]) full(s *Run[B]) int                { return s.Len / p.Rule.Block }
func (states[B]) at(*Run[B], int) *block.Block        { return nil } // it comes with a checkpoint
func (states[B]) got(*Run[B], int)                    {}             // it is copied before it is written: as many are taken
func (states[B]) withdraw(*Run[B])                    {}
func (p states[B]) pieces(*Store[B]) (*Pieces, error) { return p.StatePieces(0, len(p.States.Layers)) }

func (states[B]) resumable(s *Run[B], n int) int {
	if n == s.Len {
		return n
	}
	return 0
}

// words is where the state of a block begins, and how long it is, in the words of a layer's memory.
func (t *States[B]) words(b block.Block) (at, n int) {
	return int(b.ID) * t.Stride / 4, (t.Bytes + 3) / 4
}

// CopyState copies the state of every layer from one block to another; from none: it becomes zero.
func (p *Part[B]) CopyState(s backend.Stream, from, to block.Block) error {
	t := p.States
	at, n := t.words(to)
	for _, mem := range t.Layers {
		var err error
		if from == (block.Block{}) {
			err = p.BE.Fill(s, mem, at, n, 0)
		} else {
			was, _ := t.words(from)
			err = p.BE.Copy(s, mem, at, mem, was, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
