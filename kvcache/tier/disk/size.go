package disk

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/journal"
)

// How long growing is not tried again after it could not be.
const (
	growLater = time.Second
	growMuch  = 10 * time.Second // where the disk is full, or the files have been cut off
)

// mayGrow tells whether it is worth trying to make the files longer. The caller has the lock.
func (t *Tier) mayGrow() bool {
	return len(t.index.slots) < t.limit && !t.gone && !t.o.now().Before(t.growAt)
}

// grow makes the files a step longer, if budget and free space allow; if not, it is not asked again for a while.
func (t *Tier) grow() {
	t.sizing.Lock()
	defer t.sizing.Unlock()
	t.mu.Lock()
	n, wanted, uncut := len(t.index.slots), len(t.index.free) == 0 && t.mayGrow(), t.uncut
	t.mu.Unlock()
	if !wanted { // another call was here
		return
	}
	later, err := growLater, error(nil)
	slots := min(max(1, t.o.step/t.stride), int64(t.limit-n))
	space, _, err := t.o.system.Space(t.o.Dir)
	if err == nil && uncut {
		err = t.cutOff(n)
	}
	if err == nil {
		slots = min(slots, (space-t.o.Floor-page)/(t.stride+entryBytes)) // the table's last page may be a new one
	}
	if err == nil && slots > 0 {
		if err = t.data.Allocate(int64(n)*t.stride, (int64(n)+slots)*t.stride); err != nil {
			later = growMuch
			_ = t.data.Truncate(int64(n) * t.stride) // a part may have been taken
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && slots > 0:
		t.index.grow(n + int(slots))
		if t.cramped {
			t.cramped = false
			t.note(slog.LevelInfo, "kvcache: a disk grows again", slog.Int64("bytes", t.index.bytes), slog.Int64("capacity", int64(t.limit)*t.codec.payload))
		}
		return
	case err != nil && !errors.Is(err, errNoSpace):
		t.stats.Failures++
	}
	t.growAt = t.o.now().Add(later)
	if !t.cramped {
		t.cramped = true
		t.note(slog.LevelWarn, "kvcache: a disk cannot grow to its capacity: its file system has no room above the floor, or refuses", slog.Int64("bytes", t.index.bytes),
			slog.Int64("capacity", int64(t.limit)*t.codec.payload), slog.Int64("free", space), slog.Int64("floor", t.o.Floor), journal.Cause(err))
	}
}

// keepFloor cuts the files off as far as it takes to leave the floor free, which others may have taken.
func (t *Tier) keepFloor() {
	space, _, err := t.o.system.Space(t.o.Dir)
	if err != nil || space >= t.o.Floor {
		return
	}
	t.mu.Lock()
	t.growAt = t.o.now().Add(growMuch)
	if len(t.index.slots) > 0 {
		t.note(slog.LevelWarn, "kvcache: a disk gives up blocks: its file system has less free space than the floor", slog.Int64("free", space), slog.Int64("floor", t.o.Floor))
	}
	t.mu.Unlock()
	_ = t.failed("shrink", t.shrink(int((t.o.Floor-space+t.stride-1)/t.stride), t.evict))
}

// shrink cuts off up to so many slots at the end of the files, as far as no call is writing there; their blocks are taken out
// by out.
func (t *Tier) shrink(slots int, out func(int32)) error {
	t.sizing.Lock()
	defer t.sizing.Unlock()
	t.mu.Lock()
	x := &t.index
	n := len(x.slots)
	for ; n > 0 && slots > 0 && x.slots[n-1].state != busy; n, slots = n-1, slots-1 {
		switch s := &x.slots[n-1]; s.state {
		case held:
			out(int32(n - 1))
		case bad:
			x.bad--
		}
		x.base = max(x.base, x.slots[n-1].generation+1)
	}
	t.uncut = t.uncut || n < len(x.slots) // until it is done: calls that forget meanwhile wait for that
	cut := t.uncut
	x.slots = x.slots[:n]
	x.free = slices.DeleteFunc(x.free, func(i int32) bool { return int(i) >= n })
	t.mu.Unlock()
	if !cut {
		return nil
	}
	return t.cutOff(n)
}

// cutOff is cut, synced. Where it fails, what is left beyond the end is cut off before the files grow again. The caller has
// the lock of sizes.
func (t *Tier) cutOff(n int) error {
	err := t.cut(n)
	if err == nil {
		err = t.syncTable()
	}
	t.mu.Lock()
	t.uncut = err != nil
	t.mu.Unlock()
	return err
}
