package kvcache

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/journal"
)

// A pool logs numbers, settings and causes, and nothing that identifies a prompt, a tenant or a key: journal.Cause keeps the part of an error that is
// safe. No call waits for the program's handler (journal.Async), so that some are made with the lock held.

// flushing is how long Close waits for the handler.
const flushing = time.Second

// logMade logs a new pool.
func (p *Pool[B]) logMade() {
	bytes, _ := p.cfg.Bytes()
	names := make([]string, len(p.below.Infos))
	for i, info := range p.below.Infos {
		names[i] = info.Name
	}
	m := &p.cfg.Memory
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "kvcache: a pool was made", slog.String("layout", m.Layout.String()), slog.Int("blocks", m.Blocks), slog.Int("block_tokens", p.cfg.EntryTokens()),
		slog.Int64("bytes", bytes), slog.String("keys", p.cfg.Storage.K.String()), slog.String("values", p.cfg.Storage.V.String()), slog.String("prefix", m.Prefix.String()), slog.String("tiers", strings.Join(names, ",")))
}

// logClosed logs the end of the pool.
func (p *Pool[B]) logClosed(sequences int, err error) {
	if err != nil {
		p.log.LogAttrs(context.Background(), slog.LevelWarn, "kvcache: a pool was closed with errors", slog.Int("open_sequences", sequences), journal.Cause(err))
		return
	}
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "kvcache: a pool was closed", slog.Int("open_sequences", sequences))
}

// logCleared logs that prefixes were forgotten, or that tiers may still have some.
func (p *Pool[B]) logCleared(all bool, err error) {
	scope := "one"
	if all {
		scope = "all"
	}
	if err != nil {
		p.log.LogAttrs(context.Background(), slog.LevelError, "kvcache: Clear failed: tiers may still have blocks that it should have removed", slog.String("scopes", scope), journal.Cause(err))
		return
	}
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "kvcache: cached prefixes were cleared", slog.String("scopes", scope))
}

// logLost logs that the device is. The lock is held.
func (p *Pool[B]) logLost(err error) {
	p.log.LogAttrs(context.Background(), slog.LevelError, "kvcache: the device is lost, and everything cached on it", slog.Int("sequences", len(p.seqs)), journal.Cause(err))
}

// logFailed logs a sequence whose content is lost. The lock is held.
func (p *Pool[B]) logFailed(tokens int, err error) {
	p.log.LogAttrs(context.Background(), slog.LevelError, "kvcache: a step failed on the device, and the content of a sequence is lost", slog.Int("tokens", tokens), journal.Cause(err))
}

// logOpened logs what was found of a prompt; plan is why that much is loaded, if tiers have some of it.
func (p *Pool[B]) logOpened(prompt int, m Match, plan string) {
	if p.log.Enabled(context.Background(), slog.LevelDebug) {
		p.log.LogAttrs(context.Background(), slog.LevelDebug, "kvcache: a sequence was opened", slog.Int("prompt", prompt), slog.Int("cached", m.Cached), slog.Int("uncached", m.Uncached),
			slog.String("miss", m.MissReason.String()), slog.Int("loading", m.Loading), slog.String("plan", plan))
	}
}

// logWaited logs what tiers brought of a prompt.
func (p *Pool[B]) logWaited(m Match, err error) {
	if p.log.Enabled(context.Background(), slog.LevelDebug) {
		p.log.LogAttrs(context.Background(), slog.LevelDebug, "kvcache: a sequence waited for tiers", slog.Int("cached", m.Cached), slog.Int("uncached", m.Uncached), slog.Any("tiers", slices.Clone(m.Tiers)), journal.Cause(err))
	}
}

// logOutOfBlocks logs that there are too few blocks for a call.
func (p *Pool[B]) logOutOfBlocks(err error) {
	if of, is := errors.AsType[ErrOutOfBlocks](err); is && p.log.Enabled(context.Background(), slog.LevelDebug) {
		p.log.LogAttrs(context.Background(), slog.LevelDebug, "kvcache: out of blocks", slog.Int("need", of.Need), slog.Int("free", of.Free))
	}
}

// logSuspended logs that a sequence left the device or came back, or that it was damaged meanwhile.
func (p *Pool[B]) logSuspended(tokens int, away bool, err error) {
	switch {
	case errors.As(err, new(ErrDamaged)):
		p.log.LogAttrs(context.Background(), slog.LevelError, "kvcache: the host memory of a suspended sequence changed; its content is lost", slog.Int("tokens", tokens))
	case err == nil && p.log.Enabled(context.Background(), slog.LevelDebug):
		p.log.LogAttrs(context.Background(), slog.LevelDebug, "kvcache: a sequence was suspended or resumed", slog.Int("tokens", tokens), slog.Bool("suspended", away))
	}
}
