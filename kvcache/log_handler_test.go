package kvcache

import (
	"context"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// delayed is a handler that writes records when it is let go.
type delayed struct {
	slog.Handler
	letGo chan struct{}
}

func (g delayed) Handle(ctx context.Context, r slog.Record) error {
	<-g.letGo
	return g.Handler.Handle(ctx, r)
}

// A Match is the caller's, who may change it before it is logged.
func TestLogKeepsNothingOfTheCallers(t *testing.T) {
	impatient(t)
	log, letGo := &lines{}, make(chan struct{})
	far, err := memory.Open(memory.Options{Name: "far", Bytes: 16 << 20})
	require.NoError(t, err)
	r := tiered(t, 12, config.Tiers{More: []tier.Tier{far}}, func(c *Config) {
		c.Logger = slog.New(delayed{slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}), letGo})
	})
	prompt := sequence(0, 23)
	r.below(prompt, OpenOptions{})
	x, match := r.read(prompt, OpenOptions{})
	require.NotZero(t, match.Loading)
	got, err := x.seq.Wait(context.Background())
	require.NoError(t, err)
	require.NotEmpty(t, got.Tiers)
	for i := range got.Tiers {
		got.Tiers[i] = -7777
	}
	require.NoError(t, x.seq.Release())
	close(letGo)
	r.close()
	require.Contains(t, log.String(), "a sequence waited for tiers")
	require.NotContains(t, log.String(), "7777")
	require.NoError(t, far.Close())
}

// reentrant is a handler that asks its pool, and at the end closes it.
type reentrant struct {
	slog.Handler
	pool   atomic.Pointer[Pool[buffer]]
	asked  atomic.Int64
	closed atomic.Bool // the pool, by the handler
}

func (h *reentrant) Handle(_ context.Context, r slog.Record) error {
	if p := h.pool.Load(); p != nil {
		if _, err := p.Stats(); err == nil {
			h.asked.Add(1)
		}
		if seq, _, err := p.Open([]uint32{1, 2, 3}, OpenOptions{}); err == nil { // which is logged again
			_ = seq.Release()
		}
		if r.Message == "kvcache: cached prefixes were cleared" {
			defer h.closed.Store(true)
			return p.Close()
		}
	}
	return nil
}

// A handler may call the pool that it logs.
func TestHandlersThatCallThePool(t *testing.T) {
	h := &reentrant{Handler: slog.NewTextHandler(&lines{}, &slog.HandlerOptions{Level: slog.LevelDebug})}
	within(t, "a pool", func() {
		r := tiered(t, 12, config.Tiers{}, func(c *Config) { c.Logger, c.Memory.Layout = slog.New(h), Paged })
		h.pool.Store(r.pool)
		for i := range 10 {
			x, _ := r.read(sequence(100*i, 9), OpenOptions{})
			require.NoError(t, r.prefill(r.s, x))
			r.drop(x)
		}
		require.NoError(t, r.pool.Clear(true))
		require.Eventually(t, h.closed.Load, 10*time.Second, time.Millisecond)
		require.NoError(t, r.s.Close())
		require.NoError(t, r.be.Close())
	})
	require.NotZero(t, h.asked.Load())
}

// What was not stored when a pool was closed is not lost in silence.
func TestUnfinishedStoresAreLogged(t *testing.T) {
	impatient(t)
	log := &lines{}
	m, err := memory.Open(memory.Options{Name: "far", Bytes: 16 << 20})
	require.NoError(t, err)
	far := &hung{Tier: m}
	r := tiered(t, 12, config.Tiers{More: []tier.Tier{far}}, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	far.hang("put")
	x, _ := r.read(sequence(0, 23), OpenOptions{})
	require.NoError(t, r.prefill(r.s, x))
	r.drop(x)
	require.Error(t, r.pool.Close())
	far.recover()
	require.Contains(t, log.String(), `level=WARN msg="kvcache: a call to a tier hangs; the tier is not called until it returns" tier=far call=put`)
	require.Contains(t, log.String(), `level=WARN msg="kvcache: a pool was closed before its tiers had all that was written" cause=tier.ErrHung`)
	require.Eventually(t, func() bool { return far.inside.Load() == 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, m.Close())
	require.NoError(t, r.s.Close())
	require.NoError(t, r.be.Close())
}

// A pool that is closed leaves no goroutine of its log.
func TestLogsEnd(t *testing.T) {
	open := func() {
		r := tiered(t, 12, config.Tiers{}, func(c *Config) { c.Logger, c.Memory.Layout = (&lines{}).everything(), Paged })
		x, _ := r.read(sequence(0, 9), OpenOptions{})
		r.drop(x)
		r.close()
	}
	open()
	before := runtime.NumGoroutine()
	for range 1000 {
		open()
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+5 }, 10*time.Second, 10*time.Millisecond)
}
