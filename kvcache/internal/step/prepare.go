package step

import (
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

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
	for i := range b.Steps[0].entries {
		b.writes = b.writes || b.Steps[0].entries[i].write
	}
	fences := &b.parts.Fences
	if err := b.order(); err != nil {
		return errors.Join(fences.Observe(err), b.giveBack(nil))
	}
	enqueued := false
	err := fences.Apart(func() error {
		for i := range b.Steps {
			t := &b.Steps[i]
			t.writes = b.writes
			if err := t.work.lay(); err != nil {
				return err
			}
		}
		enqueued = true
		for i := range b.Steps {
			if err := b.Steps[i].work.enqueue(); err != nil {
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
	if err != nil && b.parts.Blocks.Unpublish(err, b.tails()) { // and fewer are needed now
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
		t.borrow()
	}
	return nil
}

// fits reports, where parts have their blocks in common, whether there are enough for all of them, before any is evicted.
func (b *Set[B]) fits() error {
	if len(b.Steps) == 1 || !b.parts.Common() {
		return nil
	}
	_, err := b.parts.Blocks.Fits(func() (need, promised int, err error) {
		for i := range b.Steps {
			t := &b.Steps[i]
			t.stage()
			n, of, err := t.countBlocks()
			for range t.Part.Sealed() { // what is written to is the part's own
				if err == nil {
					n, of, err = t.countSeals()
				}
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
		if t := &b.Steps[i]; t.Part.Written == t.Part.Kept {
			blocks = append(blocks, t.tails()...)
		}
	}
	return blocks
}

// order puts the step's stream after the steps that used the same memory on others.
func (b *Set[B]) order() error {
	for i := range b.Steps {
		if err := b.Steps[i].fence.Order(b.Stream); err != nil {
			return err
		}
	}
	for i := range b.Steps[0].entries {
		if err := b.runs(i).Order(b.Stream); err != nil {
			return err
		}
	}
	return nil
}
