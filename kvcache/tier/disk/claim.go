package disk

import (
	"context"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// claim is a busy slot, by the call that writes a block to it.
type claim struct {
	slot   int32
	entry  entry  // the one being written
	marked bool   // the table has a free slot's entry
	misses uint64 // Tier.misses when it was claimed
}

// verdict is what is done with a block.
type verdict uint8

const (
	claimed verdict = iota
	known           // it is there already
	declined
	full // the files have to grow first
)

// claim finds a slot for a block, if it is to be written: a free one, or that of the block that is to be given up next. If
// another call is writing the same block, it waits for it. orphan: the block before it was declined by the same call.
func (t *Tier) claim(ctx context.Context, b *tier.Block, orphan bool) (claim, verdict, error) {
	for {
		if err := ctx.Err(); err != nil {
			return claim{}, declined, err
		}
		c, what, wait := t.tryClaim(b, orphan)
		switch {
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
			}
		case what == full:
			t.grow()
		default:
			return c, what, nil
		}
	}
}

func (t *Tier) tryClaim(b *tier.Block, orphan bool) (c claim, what verdict, wait chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &t.index
	if t.anew != nil {
		return c, declined, t.anew
	}
	if n := int64(len(b.Bytes)); b.Key == (tier.Key{}) || n == 0 || n > t.codec.payload {
		t.stats.Declined++
		return c, declined, nil
	}
	if i, ok := x.byKey[b.Key]; ok {
		x.touch(i)
		return c, known, nil
	}
	if wait := t.writing[b.Key]; wait != nil {
		if t.o.Durable { // one Put at a time: this one has written it
			return c, known, nil
		}
		return c, declined, wait
	}
	room := len(x.free) > 0
	if !room && t.mayGrow() {
		return c, full, nil
	}
	admitted := t.admits(b, room)
	if orphan || !admitted || t.writes.waits(t.o.now()) || t.gone {
		t.stats.Declined++
		return c, declined, nil
	}
	parent := b.Parent
	if parent == b.Key {
		parent = tier.Key{} // it would never be a leaf
	}
	x.follow(parent, 1) // first, so that the block before it is not the one that goes
	i, ok := t.vacate()
	if !ok {
		x.follow(parent, -1)
		t.stats.Declined++
		return c, declined, nil
	}
	s := &x.slots[i]
	x.clock++
	c = claim{slot: i, marked: s.marked, misses: t.misses, entry: entry{key: b.Key, parent: parent, root: b.Root,
		length: uint32(len(b.Bytes)), sum: b.Sum, generation: s.generation + 1, use: x.clock}}
	t.writing[b.Key] = make(chan struct{})
	return c, claimed, nil
}

// vacate returns a slot that is busy from now on. The caller has the lock.
func (t *Tier) vacate() (int32, bool) {
	x := &t.index
	if n := len(x.free); n > 0 {
		i := x.free[n-1]
		x.free = x.free[:n-1]
		x.slots[i].state = busy
		return i, true
	}
	i := x.oldest()
	if i < 0 {
		return 0, false
	}
	t.evict(i)
	return i, true
}

// evict gives up a block; its slot is busy after it. The caller has the lock.
func (t *Tier) evict(i int32) {
	t.stats.Evicted++
	if !t.index.slots[i].read {
		t.stats.NeverUsed++
	}
	t.index.forget(i)
}

// abandon makes the slot of a claim free, whose block was not written.
func (t *Tier) abandon(c claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &t.index
	s := &x.slots[c.slot]
	s.entry, s.marked = entry{generation: c.entry.generation}, c.marked
	x.follow(c.entry.parent, -1)
	x.release(c.slot)
	t.written(c)
}

// undo forgets what a call has written that failed later.
func (t *Tier) undo(done []claim) {
	if t.o.Durable {
		for _, c := range done {
			c.marked = t.overwrite(c.slot, c.entry.generation) == nil
			t.abandon(c)
		}
		return
	}
	_ = t.forget(func(dst []int32) []int32 {
		for _, c := range done {
			i, ok := t.index.byKey[c.entry.key]
			if ok && i == c.slot && t.index.slots[i].generation == c.entry.generation {
				dst = append(dst, i)
			}
		}
		return dst
	})
}
