package memory

import (
	"context"
	"log/slog"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// copying is a payload that a call reads.
type copying struct {
	e    *entry
	from []byte
}

// Get implements tier.Tier.
func (t *Tier) Get(ctx context.Context, blocks []tier.Block) (n int, err error) {
	if err := t.enter(ctx, "get"); err != nil {
		return 0, err
	}
	t.now++
	now := t.now
	list := t.lists.Get().(*[]copying)
	for i := range blocks {
		e := t.books.find(blocks[i].Key)
		if e == nil || !e.ready || e.size != len(blocks[i].Bytes) {
			break
		}
		e.copies++
		t.books.settle(e)
		*list = append(*list, copying{e, e.at.bytes(e.size)})
	}
	t.mu.Unlock()

	corrupt := false
	for i, c := range *list {
		if err = ctx.Err(); err != nil {
			break
		}
		b := &blocks[i]
		if corrupt = b.SummedFrom(crc32c.Copy(b.Bytes, c.from)) != c.e.sum; corrupt {
			break
		}
		b.Sum = c.e.sum
		n++
	}

	t.mu.Lock()
	defer t.leave()
	for i, c := range *list {
		c.e.copies--
		if i < n {
			c.e.used, c.e.read = max(c.e.used, now), true
			t.stats.Read += int64(c.e.size)
		}
		t.settle(c.e)
	}
	if corrupt {
		t.stats.Corrupt++
		t.log.LogAttrs(ctx, slog.LevelError, "kvcache: a payload changed in host memory; it was discarded", t.changed()...)
		if e := (*list)[n].e; t.books.find(e.key) == e {
			t.remove(e)
		}
	}
	clear(*list)
	*list = (*list)[:0]
	t.lists.Put(list)
	t.stats.Queried += int64(len(blocks))
	t.stats.Hits += int64(n)
	if err != nil {
		return n, tier.ErrFailed{Name: t.info.Name, Op: "get", Err: err}
	}
	return n, nil
}

// settle is books.settle of an entry that was copied: one that was forgotten meanwhile goes now.
func (t *Tier) settle(e *entry) {
	if !e.gone {
		t.books.settle(e)
		return
	}
	if e.copies == 0 {
		t.store.give(e)
		t.books.spare = append(t.books.spare, e)
	}
}

// Put implements tier.Tier.
func (t *Tier) Put(ctx context.Context, blocks []tier.Block) error {
	if err := t.enter(ctx, "put"); err != nil {
		return err
	}
	defer t.leave()
	t.now++
	now := t.now
	var declined tier.Key
	for i := range blocks {
		b := &blocks[i]
		if e := t.books.find(b.Key); e != nil && e.ready {
			e.used = max(e.used, now)
			t.books.settle(e)
			continue
		} else if e != nil { // another call is about to put it
			t.stats.Declined++
			continue
		}
		// Without the parent that was declined a child is of no use.
		if b.Key == (tier.Key{}) || len(b.Bytes) == 0 || declined != (tier.Key{}) && b.Parent == declined {
			declined = b.Key
			t.stats.Declined++
			continue
		}
		e := t.books.add(b)
		if !t.place(e, now) {
			t.books.drop(e)
			t.books.spare = append(t.books.spare, e)
			declined = b.Key
			t.stats.Declined++
			continue
		}
		e.copies = 1
		to := e.at.bytes(e.size)
		t.mu.Unlock()
		right := b.SummedFrom(crc32c.Copy(to, b.Bytes)) == b.Sum
		err := ctx.Err()
		t.mu.Lock()
		e.sum, e.used, e.ready, e.copies = b.Sum, now, right, 0
		switch {
		case right:
			t.stored(e)
		case e.gone:
			t.settle(e)
		default:
			t.remove(e)
		}
		if !right { // it changed after it was summed
			declined = b.Key
			t.stats.Corrupt++
			t.stats.Declined++
			t.log.LogAttrs(ctx, slog.LevelError, "kvcache: a payload changed while it was copied to host memory; it was not stored", t.changed()...)
		}
		if err != nil && i+1 < len(blocks) {
			return tier.ErrFailed{Name: t.info.Name, Op: "put", Err: err}
		}
	}
	return nil
}

// changed is what is logged where bytes are not what they were. The lock may be held (journal.Async).
func (t *Tier) changed() []slog.Attr {
	return []slog.Attr{slog.String("tier", t.info.Name), slog.Int64("payloads", t.stats.Corrupt)}
}

// stored counts a block whose payload is there.
func (t *Tier) stored(e *entry) {
	t.stats.Stored++
	t.stats.Written += int64(e.size)
	if !e.gone {
		t.stats.Blocks++
		t.stats.Bytes += int64(e.size)
	}
	t.settle(e)
}

// place gives an entry a slot, giving up others that calls before this one used last.
func (t *Tier) place(e *entry, now uint64) bool {
	if int64(e.size) > t.store.budget {
		return false
	}
	c := t.store.class(e.size)
	for !c.take(e) {
		if t.store.grow(c) || t.store.shrink(c) {
			continue
		}
		if len(t.books.leaves) == 0 || t.books.leaves[0].used >= now {
			return false
		}
		victim := t.books.leaves[0]
		t.stats.Evicted++
		if !victim.read {
			t.stats.NeverUsed++
		}
		t.remove(victim)
	}
	return true
}

// remove forgets a block.
func (t *Tier) remove(e *entry) {
	if e.ready {
		t.stats.Blocks--
		t.stats.Bytes -= int64(e.size)
	}
	t.books.drop(e)
	t.settle(e)
}
