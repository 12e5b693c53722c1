package step

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// In a part with states an entry takes a block if its sequence has none, or has it with others.

// state is the block with the sequence's state during the step.
func (e *entry[B]) state() block.Block {
	if len(e.fresh.Blocks) > 0 {
		return e.fresh.Blocks[0]
	}
	return e.run.Tail()
}

// states is the work in such a part.
type states[B backend.Buffer] struct{ *Step[B] }

func (states[B]) stage()       {}
func (states[B]) scores() bool { return false }
func (states[B]) lay() error   { return nil }
func (states[B]) spares() bool { return false } // a step that is abandoned may have written it

// enqueue gives sequences that take a block the state that they had, or none.
func (b states[B]) enqueue() error {
	v := &b.Step.states
	v.Host = v.Host[:0]
	for i := range b.entries {
		e := &b.entries[i]
		if len(e.fresh.Blocks) > 0 {
			if err := b.Part.CopyState(b.Stream, e.run.Tail(), e.fresh.Blocks[0]); err != nil {
				return err
			}
		}
		v.Host = append(v.Host, e.state().ID)
	}
	for len(v.Host) < b.Size.Seqs {
		v.Host = append(v.Host, noState)
	}
	return v.Upload(b.Part.BE, b.Stream)
}

// noState is the block of a sequence that fills up a step of a fixed shape.
const noState = 1<<32 - 1

// States is the blocks with the states of the step's sequences, on the device: U32 [seqs].
func (b *Step[B]) States() B { return b.states.Buf.Buf }

// Offsets is where the states of the step's sequences begin, in bytes. From here on they may be written.
func (b *Step[B]) Offsets() []int64 {
	b.handed = true
	all := make([]int64, len(b.entries))
	for i := range b.entries {
		all[i] = int64(b.entries[i].state().ID) * int64(b.Part.States.Stride)
	}
	return all
}

// spoil notes that an abandoned step may have written the states of its sequences in their place.
func (b *Step[B]) spoil() {
	for i := range b.entries {
		if e := &b.entries[i]; b.handed && e.write && e.run.Len > 0 && len(e.fresh.Blocks) == 0 {
			e.run.Of.Failed = errSpoiled
		}
	}
	b.handed = false
}

var errSpoiled = errors.New("the states that a step was given were its own, and the step was reset: what they are now " +
	"is not known")
