package step

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/residency"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
)

// Set is one step in all parts.
type Set[B backend.Buffer] struct {
	Parts *store.Parts[B]
	Settings

	Steps  []Step[B] // of the parts
	writes bool      // there are new tokens
	reads  bool      // there are sequences without
}

// Make makes b, which stays where it is, an empty step.
func (b *Set[B]) Make(p *store.Parts[B]) {
	b.Parts, b.Steps = p, make([]Step[B], len(p.All))
	for i := range b.Steps {
		b.Steps[i].Stores, b.Steps[i].Settings = p.All[i], &b.Settings
	}
}

// Add gives a sequence so many rows: new ones or, unless write is set, queries at its last tokens. next is the position of
// its next token.
func (b *Set[B]) Add(s *store.Bodies[B], tokens int, write bool, next int) {
	for i := range b.Steps {
		e := b.Steps[i].add()
		e.Body, e.Tokens, e.Write, e.Dropped = &s.Parts[i], tokens, write, next-s.Parts[i].Len
		e.lowest = s.Parts[i].Len - tokens
	}
	b.reads = b.reads || !write
	if b.spelled {
		b.calls.calls = append(b.calls.calls, Call{Entry: len(b.Steps[0].Entries) - 1, Tokens: tokens})
	}
}

// Tokens is the number of rows.
func (b *Set[B]) Tokens() (n int) {
	for i := range b.Steps[0].Entries {
		n += b.Steps[0].Entries[i].Tokens
	}
	return n
}

// Of is the step of a layer's part, and which of its layers it is.
func (b *Set[B]) Of(layer int) (*Step[B], int) {
	at := b.Parts.Layers[layer]
	return &b.Steps[at.Part], at.Layer
}

// Writes reports whether the planned step has new tokens.
func (b *Set[B]) Writes() bool { return b.writes }

// Plan takes the blocks that the new tokens need, copies shared ones that
// the step writes into, divides the attention over the device and uploads the index
// vectors, all on stream. Whatever fails, the sequences are as before and the step can be planned again.
// Once the blocks are taken it does so without the pool's lock.
func (b *Set[B]) Plan(stream backend.Stream) error {
	b.Stream = stream
	if err := b.take(); err != nil {
		return err
	}
	b.writes = false
	for i := range b.Steps[0].Entries {
		b.writes = b.writes || b.Steps[0].Entries[i].Write
	}
	fences := &b.Parts.Fences
	if err := b.order(); err != nil {
		return errors.Join(fences.Observe(err), b.giveBack(nil))
	}
	enqueued := false
	err := fences.Apart(func() error {
		for i := range b.Steps {
			t := &b.Steps[i]
			t.writes = b.writes
			if t.Stores.States != nil {
				continue
			}
			t.Lay()
			if err := t.Divide(); err != nil {
				return err
			}
		}
		enqueued = true
		for i := range b.Steps {
			if err := b.Steps[i].enqueue(); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err == nil:
		return nil
	case !enqueued: // nothing uses the blocks
		return errors.Join(fences.Observe(err), b.giveBack(nil))
	}
	return errors.Join(fences.Observe(err), b.Abandon())
}

// take takes what the entries need in all parts, or nothing.
func (b *Set[B]) take() error {
	err := b.fits()
	if err != nil && b.Parts.Blocks.Unpublish(err, b.tails()) { // and fewer are needed now
		err = b.fits()
	}
	if err != nil {
		return err
	}
	for i := range b.Steps {
		t := &b.Steps[i]
		t.handed = false
		if err := t.take(); err != nil {
			for j := range i {
				err = errors.Join(err, b.Steps[j].giveBack(nil))
			}
			return err
		}
	}
	return nil
}

// fits reports, where parts have their blocks in common, whether there are enough for all of them, before any is evicted.
func (b *Set[B]) fits() error {
	if len(b.Steps) == 1 || !b.Parts.Common() {
		return nil
	}
	_, err := b.Parts.Blocks.Fits(func() (need, promised int, err error) {
		for i := range b.Steps {
			t := &b.Steps[i]
			t.stage()
			n, of, err := t.countBlocks()
			if err == nil && t.Stores.Windowed() {
				n, of, err = t.countSeals()
			}
			if err != nil {
				return 0, 0, err
			}
			need, promised = need+n, promised+of
		}
		return need, promised, nil
	})
	return err
}

// tails are the blocks that the step's sequences write next, of those that parts have in common.
func (b *Set[B]) tails() (blocks []block.Block) {
	for i := range b.Steps {
		if t := &b.Steps[i]; !t.Stores.Windowed() {
			blocks = append(blocks, t.tails()...)
		}
	}
	return blocks
}

// order puts the step's stream behind the steps that used the same memory on others.
func (b *Set[B]) order() error {
	for i := range b.Steps {
		if err := b.Steps[i].fence.Order(b.Stream); err != nil {
			return err
		}
	}
	for i := range b.Steps[0].Entries {
		if err := b.body(i).Order(b.Stream); err != nil {
			return err
		}
	}
	return nil
}

// Rejoin puts the step's stream behind the steps on others that read the same sequences meanwhile: who waits for this
// step's end waits for theirs.
func (b *Set[B]) Rejoin() error {
	if !b.reads {
		return nil
	}
	for i := range b.Steps[0].Entries {
		if e := &b.Steps[0].Entries[i]; !e.Write {
			if err := b.body(i).Order(b.Stream); err != nil {
				return err
			}
		}
	}
	return nil
}

// Abandon gives back what a planned step took, once the device is past what was
// enqueued for it.
func (b *Set[B]) Abandon() error {
	for i := range b.Steps {
		b.Steps[i].spoil()
	}
	fences := &b.Parts.Fences
	err := b.Rejoin()
	var f *residency.Fence
	if err == nil {
		f, err = fences.Record(b.Parts.BE, b.Stream)
	}
	if err != nil {
		return errors.Join(fences.Observe(residency.Drain(b.Stream)), b.giveBack(nil))
	}
	err = b.giveBack(f.Hold())
	b.Used(f)
	for i := range b.Steps[0].Entries {
		b.body(i).Used(f) // it may have written behind the tokens of the last block
	}
	fences.Drop(f)
	return err
}

func (b *Set[B]) giveBack(f *residency.Fence) (err error) {
	for i := range b.Steps {
		err = errors.Join(err, b.Steps[i].giveBack(f))
	}
	return err
}

// Commit hands the step's blocks to the sequences, behind the step's fence. They are the sequences' also with an error.
func (b *Set[B]) Commit(f *residency.Fence) (err error) {
	for i := range b.Steps {
		for j := range b.Steps[i].Entries {
			if failed := b.Steps[i].Entries[j].Commit(f); err == nil {
				err = failed
			}
		}
	}
	return err
}

// New is how many new tokens the sequence of entry i gets.
func (b *Set[B]) New(i int) int { return b.Steps[0].Entries[i].grows() }

// Restores reports whether entry i has new tokens, and read, as they were computed, tokens that were brought back.
func (b *Set[B]) Restores(i int) bool {
	for j := range b.Steps {
		if e := &b.Steps[j].Entries[i]; e.Write && e.restored > 0 {
			return true
		}
	}
	return false
}

// body is that of entry i's sequence.
func (b *Set[B]) body(i int) *store.Bodies[B] { return b.Steps[0].Entries[i].Body.Of }

// Publishes is the number of entries of the prefix tree that the sequence of entry i fills once the step is committed.
func (b *Set[B]) Publishes(i int) int {
	if b.Parts.Grouped() {
		return b.publishesInGroups(i)
	}
	return b.Steps[0].Entries[i].Publishes()
}

func (b *Set[B]) publishesInGroups(i int) int {
	size := b.Parts.Config.EntryTokens()
	n := b.Len(i) / size
	for j := range b.Steps {
		if e := &b.Steps[j].Entries[i]; e.Body.Stores.States == nil {
			n = min(n, (e.Publishes()+e.Body.Gone)*e.Body.Stores.Rule.Block/size)
		}
	}
	return n
}

// Len is the tokens that the sequence of entry i has once the step is committed.
func (b *Set[B]) Len(i int) int {
	return b.body(i).Len() + b.New(i)
}

// Long reports whether the layers of a part of the planned step use one cache in turn.
func (b *Set[B]) Long() bool {
	for i := range b.Steps {
		if b.Steps[i].staging.on {
			return true
		}
	}
	return false
}

// Leave brings the last blocks of layers that use one cache in turn where they belong.
func (b *Set[B]) Leave() error {
	for i := range b.Steps {
		if err := b.Steps[i].leave(); err != nil {
			return err
		}
	}
	return nil
}

// Used replaces the step's fence by that of a later one.
func (b *Set[B]) Used(f *residency.Fence) {
	for i := range b.Steps {
		t := &b.Steps[i]
		t.Stores.Fences.Replace(&t.fence, f)
	}
}

// Own enters what the step holds in the books of each part, and what it took, if it is open.
func (b *Set[B]) Own(books []store.Books, open bool) {
	for i := range b.Steps {
		b.Steps[i].own(books[i].Kept, books[i].Fresh, open)
	}
}

// Clear forgets the entries, whose blocks were given back or committed.
func (b *Set[B]) Clear() {
	for i := range b.Steps {
		b.Steps[i].clear()
	}
	b.reads = false
	if b.spelled {
		b.calls.clear()
	}
}

// Free ends the lives of the step's vectors.
func (b *Set[B]) Free() {
	for i := range b.Steps {
		b.Steps[i].free()
	}
}
