package disk

import (
	"context"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Delete forgets blocks; see tier.Tier. After it, they are not found even if the machine crashes.
func (t *Tier) Delete(ctx context.Context, keys []tier.Key) error {
	if err := t.begin("delete"); err != nil {
		return err
	}
	defer t.end()
	if err := ctx.Err(); err != nil {
		return err
	}
	err := t.forget(func(dst []int32) []int32 {
		for _, k := range keys {
			if i, ok := t.index.byKey[k]; ok && !slices.Contains(dst, i) {
				dst = append(dst, i)
			}
		}
		return dst
	})
	return t.failed("delete", err)
}

// Clear forgets all blocks of a root, or all; see tier.Tier. After it, they are not found even if the machine crashes. The
// package's comment says what remains of them on the disk. When all blocks go, the files become empty.
func (t *Tier) Clear(ctx context.Context, root tier.Key) error {
	if err := t.begin("clear"); err != nil {
		return err
	}
	defer t.end()
	if err := ctx.Err(); err != nil {
		return err
	}
	all := root == tier.Key{}
	var err error
	if all {
		err = t.shrink(t.limit, t.index.forget)
	}
	e := t.forget(func(dst []int32) []int32 {
		for _, i := range t.index.byKey {
			if all || t.index.slots[i].root == root {
				dst = append(dst, i)
			}
		}
		return dst
	})
	if err == nil {
		err = e
	}
	return t.failed("clear", err)
}

// forget takes the blocks of held slots out, those that which appends, and makes sure that they will not be found after a
// crash, nor any that were given up for others before: those may be among the forgotten ones. What an earlier call could not take out of
// the table is tried again.
func (t *Tier) forget(which func([]int32) []int32) error {
	t.mu.Lock()
	x := &t.index
	var out []claim
	for _, i := range which(nil) {
		x.forget(i)
		out = append(out, claim{slot: i, entry: x.slots[i].entry})
	}
	x.free = slices.DeleteFunc(x.free, func(i int32) bool {
		s := &x.slots[i]
		if !s.marked {
			s.state = busy
			out = append(out, claim{slot: i, entry: s.entry})
		}
		return !s.marked
	})
	var writing []chan struct{} // to slots whose blocks were given up
	for _, w := range t.writing {
		writing = append(writing, w)
	}
	t.mu.Unlock()
	for _, w := range writing {
		<-w
	}
	t.mu.Lock()
	nothing := len(out) == 0 && t.synced == t.marks
	t.mu.Unlock()
	if nothing {
		return nil
	}
	err := t.markFree(out)
	t.mu.Lock()
	for _, c := range out {
		x.slots[c.slot].marked = err == nil
		x.release(c.slot)
	}
	t.mu.Unlock()
	return err
}

// markFree writes and syncs entries of free slots, as far as it can.
func (t *Tier) markFree(out []claim) (err error) {
	for _, c := range out {
		if e := t.writeEntry(c.slot, &entry{generation: c.entry.generation}); e != nil {
			err = e
		}
	}
	if e := t.syncTable(); err == nil {
		err = e
	}
	return err
}

// markBad takes the entry of a quarantined slot out of the table, if it can: it only costs another look if it stays.
func (t *Tier) markBad(i int32, generation uint64) {
	t.sizing.Lock() // the slot is not cut off meanwhile
	defer t.sizing.Unlock()
	t.mu.Lock()
	still := int(i) < len(t.index.slots) && t.index.slots[i].state == bad
	t.mu.Unlock()
	if still {
		_ = t.writeEntry(i, &entry{generation: generation})
	}
}
