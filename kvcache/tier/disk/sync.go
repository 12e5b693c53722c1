package disk

import (
	"log/slog"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/journal"
)

// Sync ensures that what was stored before is found after a crash of the machine. After an error, also that of a sync that the tier
// made by itself since the last call, what was stored until then may be lost.
func (t *Tier) Sync() error {
	if err := t.begin("sync"); err != nil {
		return err
	}
	defer t.end()
	return t.failed("sync", t.syncAll())
}

// syncAll is sync, and also returns the errors of earlier syncs, whose writes it would not bring to the disk either.
func (t *Tier) syncAll() error {
	t.mu.Lock()
	since := t.told
	t.mu.Unlock()
	err := t.syncSince(since)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told = t.misses
	return err
}

// syncSince is sync of what was written when misses syncs had failed.
func (t *Tier) syncSince(misses uint64) error {
	if err := t.sync(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.misses != misses {
		return t.missed
	}
	return nil
}

// unsynced notes a failed sync.
func (t *Tier) unsynced(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.misses++
	t.missed = err
	t.note(slog.LevelError, "kvcache: a disk's sync failed; what was stored since the last one may be lost", journal.Cause(err))
}

// sync syncs both files.
func (t *Tier) sync() (err error) {
	t.syncing.Lock()
	defer t.syncing.Unlock()
	t.mu.Lock()
	n := t.dirty
	t.mu.Unlock()
	if err = t.data.Sync(); err != nil {
		t.unsynced(err)
	} else {
		err = t.syncTable()
	}
	t.tried(&t.writes, err)
	t.mu.Lock()
	t.dirty -= n // also if it failed: what was not kept will not match, and syncing it again would not bring it back
	t.mu.Unlock()
	return err
}

// syncTable syncs the table: what was overwritten there before is not found again, even if the machine crashes.
func (t *Tier) syncTable() error {
	t.tabling.Lock()
	defer t.tabling.Unlock()
	t.mu.Lock()
	n := t.marks
	t.mu.Unlock()
	if err := t.table.Sync(); err != nil {
		t.unsynced(err)
		t.lose(err)
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.synced = max(t.synced, n)
	return nil
}

// tried tells a breaker what came of a try.
func (t *Tier) tried(b *breaker, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := slog.String("calls", "writes")
	if b == &t.reads {
		calls = slog.String("calls", "reads")
	}
	if err != nil {
		if b.failed(t.o.now()); b.fails == patience {
			t.note(slog.LevelWarn, "kvcache: reads or writes of a disk failed several times in a row; further ones are delayed", calls, journal.Cause(err))
		}
		return
	}
	if b.fails >= patience {
		t.note(slog.LevelInfo, "kvcache: reads or writes of a disk work again", calls)
	}
	b.worked()
}

// wrote counts bytes that are not synced, and syncs them when they are many: at half of what may be lost another goroutine
// begins to, and at the whole no more is written before that is done.
func (t *Tier) wrote(n int) {
	t.mu.Lock()
	t.stats.Written += int64(n)
	t.wear.left -= float64(n)
	t.dirty += int64(n)
	dirty := t.dirty
	t.mu.Unlock()
	switch {
	case dirty >= t.o.syncBytes:
		_ = t.failed("sync", t.sync())
	case dirty >= t.o.syncBytes/2:
		signal(t.full)
	}
}

// tend syncs what was written, keeps the floor and looks after the directory, a while after the tier was used and until it
// is closed. A tier that nobody uses wakes nobody.
func (t *Tier) tend() {
	defer close(t.stopped)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	armed := false
	for {
		select {
		case <-t.done:
			return
		case <-t.used:
			if !armed {
				timer.Reset(t.o.syncEvery)
				armed = true
			}
			continue
		case <-t.full:
		case <-timer.C:
			armed = false
		}
		t.mu.Lock()
		dirty := t.dirty
		t.mu.Unlock()
		if dirty > 0 {
			_ = t.failed("sync", t.sync())
		}
		t.keepFloor()
		if !t.lock.There() || !t.table.There() || !t.data.There() {
			t.vanish()
			return
		}
	}
}

// vanish ends a tier whose directory was removed. The files are closed, or what they take would not be free.
func (t *Tier) vanish() {
	t.mu.Lock()
	t.gone = true
	t.note(slog.LevelError, "kvcache: the directory of a disk was removed, and its blocks with it")
	x := &t.index
	for i := range x.slots {
		if x.slots[i].state == held {
			x.forget(int32(i))
		}
	}
	t.mu.Unlock()
	_ = t.closeFiles()
}
