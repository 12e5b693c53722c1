package kvcache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/below"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// hung is a tier whose calls of one kind do not return until they are released, whatever their context does.
type hung struct {
	tier.Tier
	mu     sync.Mutex
	op     string
	letGo  chan struct{}
	inside atomic.Int64
}

func (h *hung) hang(op string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.op, h.letGo = op, make(chan struct{})
}

func (h *hung) recover() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.op = ""
	close(h.letGo)
}

func (h *hung) call(op string) {
	h.mu.Lock()
	hangs, letGo := h.op == op, h.letGo
	h.mu.Unlock()
	if hangs {
		h.inside.Add(1)
		defer h.inside.Add(-1)
		<-letGo
	}
}

func (h *hung) Info() tier.Info {
	h.call("info")
	return h.Tier.Info()
}

func (h *hung) Stats() tier.Stats {
	h.call("stats")
	return h.Tier.Stats()
}

func (h *hung) Has(ctx context.Context, keys []tier.Key) (int, error) {
	h.call("has")
	return h.Tier.Has(ctx, keys)
}

func (h *hung) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	h.call("get")
	return h.Tier.Get(ctx, blocks)
}

func (h *hung) Put(ctx context.Context, blocks []tier.Block) error {
	h.call("put")
	return h.Tier.Put(ctx, blocks)
}

func (h *hung) Clear(ctx context.Context, root tier.Key) error {
	h.call("clear")
	return h.Tier.Clear(ctx, root)
}

// impatient makes calls of tiers count as hung soon, until the test ends.
func impatient(t *testing.T) {
	patience, find, stats, closing := offload.Patience, findWait, below.StatsWait, below.CloseWait
	t.Cleanup(func() { offload.Patience, findWait, below.StatsWait, below.CloseWait = patience, find, stats, closing })
	offload.Patience.Ask, offload.Patience.Slow = 30*time.Millisecond, 100*time.Millisecond
	offload.Patience.Call, offload.Patience.Grace = 250*time.Millisecond, 50*time.Millisecond
	findWait, below.StatsWait = 100*time.Millisecond, 20*time.Millisecond
}

// aboveHung is a rig above n tiers that can hang.
func aboveHung(t *testing.T, n int) (r *rig[buffer], tiers []*hung) {
	var c config.Tiers
	for i := range n {
		m, err := memory.Open(memory.Options{Name: fmt.Sprint("tier", i), Bytes: 16 << 20})
		require.NoError(t, err)
		tiers = append(tiers, &hung{Tier: m})
		c.More = append(c.More, tiers[i])
	}
	return tiered(t, 12, c), tiers
}

// within fails a test whose call does not return: what hangs here hangs until it is released.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		stacks := make([]byte, 1<<20)
		t.Fatalf("%s hangs:\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
}

// evict makes all cached blocks leave the device.
func (r *rig[B]) evict() {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	require.NoError(r.t, r.pool.parts.Blocks.Reclaim())
	r.pool.tree.EvictAny(r.pool.tree.Stats().Cached)
}

// come opens prompts until tiers give back all of one, without anything else that waits: at most some are lost with a call that hangs.
func (r *rig[B]) come(prompt []uint32) {
	r.t.Helper()
	for n := 0; ; n++ {
		require.Less(r.t, n, 1000)
		r.evict()
		x, m := r.read(prompt, OpenOptions{})
		if m.Loading > 0 {
			m, err := x.seq.Wait(context.Background())
			require.NoError(r.t, err)
			x.arrived(r, m)
		}
		got := x.seq.Len()
		require.NoError(r.t, r.prefill(r.s, x))
		r.check(r.s, x)
		r.drop(x)
		if got == (len(prompt)-1)/4*4 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// have waits until a tier has the full blocks of a prompt, which is computed as often as it takes.
func (r *rig[B]) have(t tier.Tier, prompt []uint32) {
	r.t.Helper()
	keys := r.pool.common.Keys(nil, 4, prefix.Query{Tokens: prompt[:len(prompt)/4*4]})
	for n := 0; ; n++ {
		require.Less(r.t, n, 1000)
		r.cache(prompt, OpenOptions{})
		r.tryFlush()
		got, err := t.Has(context.Background(), keys)
		require.NoError(r.t, err)
		if got == len(keys) {
			return
		}
		r.evict()
		time.Sleep(time.Millisecond)
	}
}

// tryFlush is Flush where tiers may hang.
func (r *rig[B]) tryFlush() {
	r.t.Helper()
	require.NoError(r.t, r.s.Sync())
	if err := r.pool.Flush(context.Background()); err != nil {
		require.ErrorAs(r.t, err, &tier.ErrHung{})
	}
}

// Tiers that hang in any call, one, three or all of them, above and below one that does not, hold nothing that others need: prompts
// go down to that one and come back, sequences and steps go on, host memory is bounded, and a tier is used again when its calls return.
func TestTiersThatHang(t *testing.T) {
	impatient(t)
	before := runtime.NumGoroutine()
	for _, op := range []string{"has", "get", "put", "clear", "stats", "info"} {
		for name, hanging := range map[string][]int{"above": {0}, "below": {1}, "all": {0, 1}, "three above": {0, 1, 2}, "three around": {0, 1, 3}} {
			t.Run(op+" "+name, func(t *testing.T) {
				n, well := 2, -1
				if len(hanging) == 3 {
					n = 4
				}
				r, tiers := aboveHung(t, n)
				prompt := sequence(1, 23)
				r.below(prompt, OpenOptions{})
				limp := map[int]bool{}
				for _, i := range hanging {
					tiers[i].hang(op)
					limp[i] = true
				}
				for i := range tiers {
					if !limp[i] {
						well = i
					}
				}
				within(t, "the traffic", func() {
					for i := range 8 { // more than there is host memory for
						r.cache(sequence(1000+100*i, 23), OpenOptions{})
						x, m := r.read(prompt, OpenOptions{})
						if m.Loading > 0 {
							m, err := x.seq.Wait(context.Background())
							require.NoError(t, err)
							x.arrived(r, m)
						}
						require.NoError(t, r.prefill(r.s, x))
						r.check(r.s, x)
						r.drop(x)
						r.tryFlush()
						r.evict()
					}
					if well >= 0 {
						r.have(tiers[well].Tier, sequence(3000, 23))
						r.come(prompt)
					}
					require.Len(t, r.pool.Tiers(), n)
					require.LessOrEqual(t, r.stats().Moves.Waiting, 2*r.stats().Blocks)
					if op == "clear" {
						require.ErrorAs(t, r.pool.Clear(true), &tier.ErrHung{})
						if well >= 0 {
							require.Zero(t, tiers[well].Tier.Stats().Blocks)
							r.have(tiers[well].Tier, prompt)
							r.come(prompt)
						}
					}
				})
				lane := 3 + 2*3*n
				info := r.be.Info().Host
				require.LessOrEqual(t, info.Pinned+info.Other, 2*int64(lane)*(8<<20+r.stats().Moves.BlockBytes))
				var inside int64
				for _, i := range hanging {
					require.LessOrEqual(t, tiers[i].inside.Load(), int64(16))
					inside += tiers[i].inside.Load()
					tiers[i].recover()
				}
				if op != "info" && (op != "get" || name != "below") { // that one is never read
					require.Positive(t, inside)
				}
				within(t, "what comes after", func() {
					for i := range tiers {
						r.have(tiers[i], sequence(5000+100*i, 23))
						r.come(sequence(5000+100*i, 23))
					}
					r.flush()
					for _, s := range r.stats().Tiers {
						require.Zero(t, s.Moves.Hanging+s.Moves.Late)
					}
					r.close()
				})
				for i := range tiers {
					require.NoError(t, tiers[i].Close())
				}
			})
		}
	}
	nothingRuns(t, before)
}

// Close returns above tiers that hang, and what their calls hold is freed when they return.
func TestCloseAboveTiersThatHang(t *testing.T) {
	impatient(t)
	before := runtime.NumGoroutine()
	for _, op := range []string{"has", "get", "put", "clear", "stats"} {
		r, tiers := aboveHung(t, 3)
		prompt := sequence(1, 23)
		r.below(prompt, OpenOptions{})
		for _, h := range tiers {
			h.hang(op)
		}
		within(t, op, func() {
			r.cache(sequence(500, 23), OpenOptions{})
			x, _ := r.read(prompt, OpenOptions{})
			_, err := x.seq.Wait(context.Background())
			require.NoError(t, err)
			_, err = r.pool.Stats()
			require.NoError(t, err)
			if op == "clear" {
				require.ErrorAs(t, r.pool.Clear(true), &tier.ErrHung{})
				require.ErrorAs(t, r.pool.Clear(true), &tier.ErrHung{})
			}
			if err := r.pool.Close(); op == "stats" {
				require.NoError(t, err)
			} else {
				require.ErrorAs(t, err, &tier.ErrHung{}, op)
			}
		})
		for _, h := range tiers {
			if op == "clear" {
				require.LessOrEqual(t, h.inside.Load(), int64(1), "one call at a time")
			}
			h.recover()
		}
		require.Eventually(t, func() bool { return r.be.Info().Host.Pinned+r.be.Info().Host.Other == 0 }, time.Minute, time.Millisecond)
		require.NoError(t, errors.Join(r.s.Close(), r.be.Close()))
		for _, h := range tiers {
			require.NoError(t, h.Tier.Close())
		}
	}
	nothingRuns(t, before)
}

// A step that needs all blocks does not wait while a tier is asked what it has of those that were written before.
func TestStepsDoNotWaitForAnswers(t *testing.T) {
	defer func(d time.Duration) { offload.Patience.Call = d }(offload.Patience.Call)
	offload.Patience.Call = time.Hour
	r, tiers := aboveHung(t, 1)
	tiers[0].hang("has") // and the storer waits an hour for that
	require.NoError(t, r.prefillOf(sequence(1, 37)))
	require.Eventually(t, func() bool { return tiers[0].inside.Load() > 0 }, time.Minute, time.Millisecond)
	within(t, "a step", func() {
		for i := range 3 {
			require.NoError(t, r.prefillOf(sequence(1000*(i+1), 37)))
		}
	})
	tiers[0].recover()
	r.flush()
	r.close()
	require.NoError(t, tiers[0].Close())
}

// prefillOf computes a prompt that asks no tier.
func (r *rig[B]) prefillOf(prompt []uint32) error {
	x, _ := r.read(prompt, OpenOptions{NoReuse: true})
	if err := r.prefill(r.s, x); err != nil {
		return err
	}
	return x.seq.Release()
}
