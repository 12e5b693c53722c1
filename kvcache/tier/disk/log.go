package disk

import (
	"context"
	"log/slog"

	"github.com/ferrumkv/ferrumkv/internal/journal"
)

// note logs what a disk did or met. It may be called with locks held (journal.Async). Nothing in it names a block.
func (t *Tier) note(level slog.Level, message string, about ...slog.Attr) {
	t.log.LogAttrs(context.Background(), level, message, append([]slog.Attr{slog.String("tier", name)}, about...)...)
}

// opened logs what an earlier process left.
func (t *Tier) opened() {
	if n := t.stats.Corrupt; n > 0 {
		t.note(slog.LevelError, "kvcache: the table of a disk is damaged; the blocks of damaged entries are lost", slog.Int64("entries", n))
	}
	t.note(slog.LevelInfo, "kvcache: a disk was opened", slog.Int("blocks", len(t.index.byKey)), slog.Int64("bytes", t.index.bytes),
		slog.Int64("capacity", int64(t.limit)*t.codec.payload), slog.Bool("encrypted", t.codec.sealer != nil))
}

// quarantined logs a slot that is not used any more. The caller has the lock.
func (t *Tier) quarantined(err error) {
	capacity := slog.Int64("quarantined_bytes", t.index.bad*t.codec.payload)
	if err == nil {
		t.note(slog.LevelError, "kvcache: a disk returned wrong bytes; they were discarded, and their slot is no longer used", capacity)
		return
	}
	t.note(slog.LevelWarn, "kvcache: a block cannot be read and was given up; its slot is no longer used", capacity, journal.Cause(err))
}
