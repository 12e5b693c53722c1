package step

import (
	"errors"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Plan takes the blocks that the new tokens need, copies shared ones that
// the step writes into, divides the attention over the device and uploads the index
// vectors, all on stream. Whatever fails, the sequences are as before and the step can be planned again.
// Once the blocks are taken it does so without the pool's lock.
func (b *Step[B]) Plan(stream backend.Stream) error {
	b.Stream = stream
	if err := b.take(); err != nil {
		return err
	}
	b.writes = slices.ContainsFunc(b.Entries, func(e Entry[B]) bool { return e.Write })
	fences := &b.Stores.Fences
	if err := b.order(); err != nil {
		return errors.Join(fences.Observe(err), b.giveBack(nil))
	}
	enqueued := false
	err := fences.Apart(func() error {
		b.Lay()
		if err := b.Divide(); err != nil {
			return err
		}
		enqueued = true
		return b.enqueue()
	})
	switch {
	case err == nil:
		return nil
	case !enqueued: // nothing uses the blocks
		return errors.Join(fences.Observe(err), b.giveBack(nil))
	}
	return errors.Join(fences.Observe(err), b.Abandon())
}

// order puts the step's stream behind the steps that used the same memory on others.
func (b *Step[B]) order() error {
	if err := b.fence.Order(b.Stream); err != nil {
		return err
	}
	for i := range b.Entries {
		if err := b.Entries[i].Body.Fence.Order(b.Stream); err != nil {
			return err
		}
	}
	return nil
}

// enqueue puts the step's uploads and copies on its stream.
func (b *Step[B]) enqueue() error {
	p := b.Stores
	if err := b.Index.Upload(p.BE, b.Stream); err != nil {
		return err
	}
	if err := b.copyShared(); err != nil {
		return err
	}
	if p.Windowed() {
		if err := b.enqueueWindow(); err != nil {
			return err
		}
	}
	if p.Config.Attention.Scores && b.writes && !b.staging.on {
		for l := range p.Fresh.Layers {
			if err := b.clearScores(&p.Fresh.Layers[l]); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyShared copies the shared blocks that the step writes into, in every layer.
func (b *Step[B]) copyShared() error {
	ix := &b.Index
	ix.Pairs.Host = ix.Pairs.Host[:0]
	for i := range b.Entries {
		if e := &b.Entries[i]; e.copies {
			ix.Pairs.Host = append(ix.Pairs.Host, e.Body.Tail().ID, e.fresh.Blocks[e.restored].ID)
		}
	}
	if len(ix.Pairs.Host) == 0 {
		return nil
	}
	return b.Stores.CopyBlocks(b.Stream, b.Stores.Fresh, &ix.Pairs)
}
