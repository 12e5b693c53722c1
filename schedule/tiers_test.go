package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// moody is a tier whose calls do what a test says first.
type moody struct {
	tier.Tier
	mood atomic.Pointer[func(op string) error]
}

func (m *moody) feel(op string) error {
	if f := m.mood.Load(); f != nil {
		return (*f)(op)
	}
	return nil
}

func (m *moody) set(f func(op string) error) { m.mood.Store(&f) }

func (m *moody) Has(ctx context.Context, keys []tier.Key) (int, error) {
	if err := m.feel("has"); err != nil {
		return 0, err
	}
	return m.Tier.Has(ctx, keys)
}

func (m *moody) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	if err := m.feel("get"); err != nil {
		return 0, err
	}
	return m.Tier.Get(ctx, blocks)
}

func (m *moody) Put(ctx context.Context, blocks []tier.Block) error {
	if err := m.feel("put"); err != nil {
		return err
	}
	return m.Tier.Put(ctx, blocks)
}

// bubble has a property be tried on a clock of its own.
func bubble(t *testing.T, do func()) {
	var failed any
	synctest.Test(t, func(*testing.T) {
		defer func() { failed = recover() }()
		do()
	})
	if failed != nil {
		panic(failed)
	}
}

func newMoody(t testT) *moody {
	t.Helper()
	m, err := memory.Open(memory.Options{Bytes: 16 << 20})
	require.NoError(t, err)
	return &moody{Tier: m}
}

// With tiers that are slow, fail, or hang until the end, answers are those without, and come.
func TestHistoriesOfTiers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bubble(t, func() {
			cfg, o := drawConfig(rt)
			if cfg.Memory.Layout == kvcache.Contiguous || cfg.Memory.Prefix != 0 {
				cfg = small(16) // which has tiers
			}
			m := newMoody(rt)
			cfg.Tiers.More = []tier.Tier{m}
			o.Flush = time.Duration(rapid.IntRange(0, 1).Draw(rt, "flush")) * time.Second
			h := newHistory(rt, openCPU(rt), cfg, o)
			h.patience = 24 * time.Hour
			over := make(chan struct{})
			op := rapid.SampledFrom([]string{"has", "get", "put"}).Draw(rt, "op")
			mood := rapid.IntRange(0, 3).Draw(rt, "mood")
			calls, from := 0, rapid.IntRange(0, 20).Draw(rt, "from")
			h.model.forward = func(*Step[buffer]) error {
				time.Sleep(time.Millisecond) // tiers have their turn
				if calls++; calls != from {
					return nil
				}
				m.set(func(does string) error {
					switch {
					case does != op:
					case mood == 1:
						time.Sleep(30 * time.Millisecond)
					case mood == 2:
						return errBoom
					case mood == 3:
						<-over
					}
					return nil
				})
				return nil
			}
			h.schedule(rt, false, nil)
			h.pass(rt, func() {
				m.set(nil)
				m.mood.Store(nil)
				close(over)
				time.Sleep(time.Minute)
			})
			require.NoError(rt, m.Tier.Close())
		})
	})
}

// The end of an answer waits until tiers have what it computed, at most as long as it is told.
func TestFlush(t *testing.T) {
	for name, hangs := range map[string]bool{"well": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func() {
				cfg, m, over := small(24), newMoody(t), make(chan struct{})
				cfg.Tiers.More = []tier.Tier{m}
				r := newRig(t, openCPU(t), cfg, Options{Flush: 700 * time.Millisecond})
				r.patience = time.Hour
				m.set(func(op string) error {
					if op == "put" {
						time.Sleep(100 * time.Millisecond)
						if hangs {
							<-over
						}
					}
					return nil
				})
				g := r.submit(Request{Prompt: tokens(1, 0, 30), MaxTokens: 1})
				r.drain()
				want := 100 * time.Millisecond
				if hangs {
					want = 700 * time.Millisecond
				}
				require.Equal(t, want, g.Report().Flushed)
				require.InDelta(t, want.Seconds(), r.s.Stats().Flushed.Sum, 1e-9)
				stored := m.Stats().Blocks
				require.Equal(t, hangs, stored == 0)
				close(over)
				time.Sleep(time.Minute)
				r.close()
				require.NoError(t, m.Tier.Close())
			})
		})
	}
}

// What another process stored is loaded while others are computed, and a request that is cancelled meanwhile ends.
func TestLoading(t *testing.T) {
	bubble(t, func() {
		cfg, m := small(24), newMoody(t)
		cfg.Tiers.More = []tier.Tier{m}
		first := newRig(t, openCPU(t), cfg, Options{Flush: time.Minute})
		first.submit(Request{Prompt: tokens(1, 0, 33), MaxTokens: 1})
		first.drain()
		first.close()

		r := newRig(t, openCPU(t), cfg, Options{})
		r.patience = time.Hour
		over := make(chan struct{})
		m.set(func(op string) error {
			if op == "get" {
				<-over
			}
			return nil
		})
		r.submit(Request{Prompt: tokens(1, 0, 33), MaxTokens: 2})
		leaves := r.submit(Request{Prompt: tokens(1, 0, 29), MaxTokens: 2, Open: first.answers[0].Open})
		leaves.touched = true
		other := r.submit(Request{Prompt: tokens(2, 0, 9), MaxTokens: 3})
		go func() {
			<-other.Done()
			stats := r.s.Stats()
			if stats.Loading != 1 || stats.Waiting != 2 {
				panic(stats)
			}
			leaves.Cancel()
			<-leaves.Done()
			close(over)
		}()
		r.drain()
		require.Equal(t, 32, r.answers[0].Report().Match.Cached)
		require.Equal(t, Cancelled, leaves.Report().Reason)
		require.True(t, errors.Is(leaves.Report().Err, context.Canceled))
		r.close()
		require.NoError(t, m.Tier.Close())
	})
}

// A tier that hangs, whatever it is asked, delays the end of Run by what it may take, and the end of its context not even by that.
func TestHangingTier(t *testing.T) {
	for op, most := range map[string]time.Duration{"has": 400 * time.Millisecond, "get": 0, "put": time.Second} {
		for _, stop := range []bool{false, true} {
			t.Run(fmt.Sprint(op, stop), func(t *testing.T) {
				bubble(t, func() {
					cfg, m, over := small(24), newMoody(t), make(chan struct{})
					cfg.Tiers.More = []tier.Tier{m}
					first := newRig(t, openCPU(t), cfg, Options{Flush: time.Minute})
					first.submit(Request{Prompt: tokens(1, 0, 33), MaxTokens: 1})
					first.drain()
					first.close()

					r := newRig(t, openCPU(t), cfg, Options{Flush: time.Second})
					r.patience = time.Hour
					m.set(func(does string) error {
						if does == op {
							<-over
						}
						return nil
					})
					for i := range 5 {
						r.submit(Request{Prompt: tokens(1, 33-i, 33), MaxTokens: 2}).touched = stop
					}
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					if stop {
						most = min(most, 100*time.Millisecond) // that Open waits for answers
						time.AfterFunc(50*time.Millisecond, cancel)
					}
					begin := time.Now()
					r.s.Drain()
					r.run(ctx)
					require.LessOrEqual(t, time.Since(begin), most)
					close(over)
					time.Sleep(time.Minute)
					r.close()
					require.NoError(t, m.Tier.Close())
				})
			})
		}
	}
}
