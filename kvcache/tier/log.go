package tier

import (
	"context"
	"log/slog"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/journal"
)

// The mover logs names of tiers and calls, and nothing of blocks. Most of this is logged with the lock held: see journal.Async.

// paused logs that a tier is not called for a while.
func (m *Mover) paused(g *guard, op string, err error) {
	m.log.LogAttrs(context.Background(), slog.LevelWarn, "kvcache: a tier failed several times in a row and is not called for a while", slog.String("tier", g.name),
		slog.Int("failures", g.failures), slog.Duration("pause", g.pause), slog.String("call", op), journal.Cause(err))
}

// resumed logs that a tier that failed works again.
func (m *Mover) resumed(g *guard) {
	m.log.LogAttrs(context.Background(), slog.LevelInfo, "kvcache: a tier works again", slog.String("tier", g.name), slog.Int("failures", g.failures))
}

// wrong logs a payload that is not what was stored.
func (m *Mover) wrong(g *guard) {
	m.log.LogAttrs(context.Background(), slog.LevelError, "kvcache: a tier returned wrong bytes; they were discarded", slog.String("tier", g.name), slog.Int64("payloads", g.stats.Corrupt))
}

// stuck logs a call that hangs.
func (m *Mover) stuck(g *guard, op string) {
	m.log.LogAttrs(context.Background(), slog.LevelWarn, "kvcache: a call to a tier hangs; the tier is not called until it returns", slog.String("tier", g.name), slog.String("call", op))
}

// unstuck logs that a call that hung returned.
func (m *Mover) unstuck(g *guard, op string, took time.Duration) {
	m.log.LogAttrs(context.Background(), slog.LevelInfo, "kvcache: a call to a tier that hung has returned", slog.String("tier", g.name), slog.String("call", op), slog.Duration("took", took))
}

// failedCall logs a call that failed or was cancelled.
func (m *Mover) failedCall(g *guard, op string, err error) {
	if m.log.Enabled(context.Background(), slog.LevelDebug) {
		m.log.LogAttrs(context.Background(), slog.LevelDebug, "kvcache: a call to a tier failed or was cancelled", slog.String("tier", g.name), slog.String("call", op), journal.Cause(err))
	}
}
