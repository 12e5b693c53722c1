package step

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
)

// In a part with states an entry takes a block if its sequence has none, or has it with others.

// takesState is the number of blocks that an entry takes in a part with states.
func (e *Entry[B]) takesState() (int, error) {
	if !e.Write {
		return 0, nil
	}
	if e.Body.Len == 0 {
		return 1, nil
	}
	shared, err := e.Body.TailShared()
	if err != nil || !shared {
		return 0, err
	}
	return 1, nil
}

// state is the block with the sequence's state during the step.
func (e *Entry[B]) state() block.Block {
	if len(e.fresh.Blocks) > 0 {
		return e.fresh.Blocks[0]
	}
	return e.Body.Tail()
}

// enqueueStates gives sequences that take a block the state that they had, or none.
func (b *Step[B]) enqueueStates() error {
	ix := &b.Index
	ix.Lens.Host = ix.Lens.Host[:0]
	for i := range b.Entries {
		e := &b.Entries[i]
		if len(e.fresh.Blocks) > 0 {
			if err := b.Stores.CopyState(b.Stream, e.Body.Tail(), e.fresh.Blocks[0]); err != nil {
				return err
			}
		}
		ix.Lens.Host = append(ix.Lens.Host, e.state().ID)
	}
	for len(ix.Lens.Host) < b.Size.Seqs {
		ix.Lens.Host = append(ix.Lens.Host, noState)
	}
	return ix.Lens.Upload(b.Stores.BE, b.Stream)
}

// noState is the block of a sequence that fills up a step of a fixed shape.
const noState = 1<<32 - 1

// commitState gives the sequence the block that its state is in now.
func (e *Entry[B]) commitState(f *residency.Fence) (err error) {
	s := e.Body
	if len(e.fresh.Blocks) > 0 {
		err = s.Stores.Kept.Exchange(s.Kept, 0, e.fresh.Blocks, f)
	}
	if e.Write {
		s.Len += e.grows()
	}
	return err
}

// Offsets is where the states of the step's sequences begin, in bytes. From here on they may be written.
func (b *Step[B]) Offsets() []int64 {
	b.handed = true
	all := make([]int64, len(b.Entries))
	for i := range b.Entries {
		all[i] = int64(b.Entries[i].state().ID) * int64(b.Stores.States.Stride)
	}
	return all
}

// spoil notes that an abandoned step may have written the states of its sequences in their place.
func (b *Step[B]) spoil() {
	for i := range b.Entries {
		if e := &b.Entries[i]; b.handed && e.Write && e.Body.Len > 0 && len(e.fresh.Blocks) == 0 {
			e.Body.Of.Failed = errSpoiled
		}
	}
	b.handed = false
}

var errSpoiled = errors.New("the states that a step was given were its own, and the step was reset: what they are now " +
	"is not known")
