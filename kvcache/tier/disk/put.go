package disk

import (
	"context"
	"errors"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Put stores blocks; see tier.Tier. A block is declined where its parent of the same call was, where admission says so, where
// nothing can be given up for it, and for a while after writes failed.
func (t *Tier) Put(ctx context.Context, blocks []tier.Block) error {
	if err := t.begin("put"); err != nil {
		return err
	}
	defer t.end()
	if t.o.Durable {
		t.durable.Lock() // or two calls could wait for each other's blocks
		defer t.durable.Unlock()
	}
	t.mu.Lock()
	misses := t.misses
	t.mu.Unlock()
	done, err := t.putAll(ctx, blocks)
	over := ctx.Err() != nil && errors.Is(err, ctx.Err()) // what was done until then holds
	if (err == nil || over) && t.o.Durable && len(done) > 0 {
		if e := t.syncSince(misses); e != nil {
			err, over = e, false
		} else {
			t.publish(done...)
		}
	}
	if err != nil && !over {
		t.undo(done)
	}
	return t.failed("put", err)
}

// putAll stores blocks one after another, and returns what it has written even if it fails.
func (t *Tier) putAll(ctx context.Context, blocks []tier.Block) (done []claim, err error) {
	var refused tier.Key // the last one
	for i := range blocks {
		b := &blocks[i]
		c, what, err := t.claim(ctx, b, refused != (tier.Key{}) && b.Parent == refused)
		if err != nil {
			return done, err
		}
		switch what {
		case declined:
			refused = b.Key
			continue
		case known:
			continue
		}
		if err := t.write(&c, b); err != nil {
			t.abandon(c)
			return done, err
		}
		done = append(done, c)
		if !t.o.Durable {
			t.publish(c)
		}
		t.wrote(len(b.Bytes))
	}
	return done, nil
}

// write writes a block to the slot of a claim. Nothing of it is found before publish.
func (t *Tier) write(c *claim, b *tier.Block) (err error) {
	defer func() { t.tried(&t.writes, err) }()
	e := &c.entry
	if !c.marked {
		if err := t.overwrite(c.slot, e.generation); err != nil {
			return err
		}
		c.marked = true
	}
	payload := b.Bytes
	if s := t.codec.sealer; s != nil {
		room := t.room.Get().(*[]byte)
		defer t.room.Put(room)
		sealed, err := s.Seal((*room)[:0], &e.nonce, b.Bytes, t.codec.about('D', int(c.slot), e))
		if err != nil {
			return err
		}
		payload = sealed[:len(b.Bytes)]
		copy(e.tag[:], sealed[len(b.Bytes):])
	}
	if _, err := t.data.WriteAt(payload, int64(c.slot)*t.stride); err != nil {
		return err
	}
	c.marked = false // whatever comes of the next line
	return t.writeEntry(c.slot, e)
}

// publish makes what was written findable.
func (t *Tier) publish(done ...claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range done {
		s := &t.index.slots[c.slot]
		s.entry, s.marked, s.moved = c.entry, false, false
		t.index.hold(c.slot)
		if c.misses != t.misses { // a sync failed in the middle of the block, which Sync has to report for this one, too
			t.misses++
		}
		t.stats.Stored++
		t.written(c)
	}
}

// written ends the wait of those who put the same block. The caller has the lock.
func (t *Tier) written(c claim) {
	close(t.writing[c.entry.key])
	delete(t.writing, c.entry.key)
}
