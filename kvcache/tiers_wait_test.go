package kvcache

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/below"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
	"github.com/stretchr/testify/require"
)

// still is a tier that can stand still: calls wait for it to be let go, and for their context, or not even for that.
type still struct {
	tier.Tier
	has, get, deaf atomic.Bool
	asked          atomic.Int64 // calls of Get, and of Has while it stands
	letGo          chan struct{}
}

func (s *still) stand(ctx context.Context) error {
	if s.deaf.Load() {
		<-s.letGo
		return nil
	}
	select {
	case <-s.letGo:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *still) Has(ctx context.Context, keys []tier.Key) (int, error) {
	if s.has.Load() {
		s.asked.Add(1)
		if err := s.stand(ctx); err != nil {
			return 0, err
		}
	}
	return s.Tier.Has(ctx, keys)
}

func (s *still) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	s.asked.Add(1)
	if s.get.Load() {
		if err := s.stand(ctx); err != nil {
			return 0, err
		}
	}
	return s.Tier.Get(ctx, blocks)
}

// standing is a rig above a tier that can stand still and has the full blocks of a prompt of 23 tokens. end lets all go.
func standing(t *testing.T) (r *rig[buffer], s *still, prompt []uint32, end func()) {
	m, err := memory.Open(memory.Options{Bytes: 16 << 20})
	require.NoError(t, err)
	s = &still{Tier: m, letGo: make(chan struct{})}
	r = tiered(t, 12, config.Tiers{More: []tier.Tier{s}})
	prompt = sequence(1, 23)
	r.below(prompt, OpenOptions{})
	return r, s, prompt, func() {
		close(s.letGo)
		r.close()
		require.NoError(t, m.Close())
	}
}

// fast tells the planner that a prompt of 20 tokens takes two seconds to compute, and hardly any time to load.
func (r *rig[B]) fast() {
	r.pool.Prefilled(0, 10, time.Second)
	for _, n := range []int64{1, 8} {
		r.pool.below.Offload.Planner().Observe(0, n*r.pool.below.Offload.BlockBytes(), time.Duration(n)*time.Microsecond, time.Now())
	}
}

func (r *rig[B]) decisions() planner.Stats { return r.stats().Moves.Planner }

// As long as nobody has told how fast the runner computes all is loaded, and Stats say so.
func TestTiersAreTrusted(t *testing.T) {
	r, _, prompt, end := standing(t)
	x, _ := r.read(prompt, OpenOptions{})
	require.Equal(t, 20, x.wait(r).Cached)
	st := r.stats().Moves
	require.Equal(t, int64(1), st.Planner.Decisions[planner.Load])
	require.Zero(t, st.Planner.Probes)
	require.Equal(t, planner.Load, st.Planner.Last.Choice)
	require.Contains(t, st.Reason, "is not known, so all is loaded")
	require.NoError(t, x.seq.Release())
	end()
}

// A tier of which nothing is known is tried beside: nobody waits for that, also where it stands still, and its blocks are not on their way.
func TestProbesAreNotWaitedFor(t *testing.T) {
	defer func(least time.Duration) { findLeast = least }(findLeast)
	findLeast = time.Minute // a tier in memory always answers, and late on a busy machine
	for _, stands := range []bool{false, true} {
		r, s, prompt, end := standing(t)
		r.pool.Prefilled(0, 4_000_000, time.Second)
		s.get.Store(stands)
		x, m := r.read(prompt, OpenOptions{})
		require.Zero(t, m.Loading)
		require.Zero(t, x.wait(r).Cached)
		require.NoError(t, r.prefill(r.s, x))
		require.Equal(t, int64(1), r.decisions().Probes)
		require.Contains(t, r.stats().Moves.Reason, "how fast tier 0 loads is not known")
		if !stands {
			require.Eventually(t, func() bool { return r.stats().Tiers[0].Moves.Loaded > 0 }, time.Minute, time.Millisecond)
		}
		require.NoError(t, x.seq.Release())
		end()
	}
}

// Case 17 in a pool: a tier that was fast and stands still, whether it heeds its context or not, is given up after a tenth of what computing
// takes. That is regretted, and not done again.
func TestTierThatStandsStill(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		r, s, prompt, end := standing(t)
		r.fast()
		s.get.Store(true)
		s.deaf.Store(deaf)
		x, m := r.read(prompt, OpenOptions{})
		require.Equal(t, 20, m.Loading)
		require.Zero(t, x.wait(r).Cached)
		st := r.decisions()
		require.Equal(t, int64(1), st.GivenUp)
		require.GreaterOrEqual(t, st.Regret, 100*time.Millisecond)
		require.Less(t, st.Regret, time.Second, "a tenth of two seconds is what waiting may cost")
		require.NoError(t, r.prefill(r.s, x))
		r.check(r.s, x)
		y, m := r.read(append(prompt[:20:20], 77), OpenOptions{NoReuse: true})
		require.Zero(t, m.Loading)
		require.NoError(t, x.seq.Release())
		require.NoError(t, y.seq.Release())
		end()
	}
}

// A tier that does not say what it has is not waited for longer than that either, and has nothing.
func TestTierThatDoesNotAnswer(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		r, s, prompt, end := standing(t)
		r.fast()
		s.has.Store(true)
		s.deaf.Store(deaf)
		for range 3 {
			x, m := r.read(prompt, OpenOptions{})
			require.Zero(t, m.Loading)
			require.NoError(t, x.seq.Release())
		}
		require.Equal(t, int64(3), s.asked.Load())
		end()
	}
}

// What a tier has to deliver to others counts: the next prompt is computed where it would have to wait for them.
func TestTiersHaveQueues(t *testing.T) {
	r, s, prompt, end := standing(t)
	r.pool.Prefilled(0, 10, time.Second)
	o := r.pool.below.Offload
	for _, n := range []int64{1, 8} { // a block in less than a tenth of two seconds, two in more
		o.Planner().Observe(0, n*o.BlockBytes(), time.Duration(n)*150*time.Millisecond, time.Now())
	}
	s.get.Store(true)
	x, m := r.read(prompt, OpenOptions{})
	require.Equal(t, 20, m.Loading)
	y, m := r.read(prompt, OpenOptions{})
	require.Zero(t, m.Loading, "%+v", r.decisions().Last)
	require.Equal(t, planner.Compute, r.decisions().Last.Choice)
	require.NoError(t, x.seq.Release())
	require.NoError(t, y.seq.Release())
	require.Eventually(t, func() bool { return r.stats().Moves.Loading == 0 }, time.Minute, time.Millisecond)
	end()
}

// A call that hangs has the host memory that it was lent as long as it likes, also after Close.
func TestCloseLeavesMemoryToCallsThatHang(t *testing.T) {
	defer func(d time.Duration) { below.CloseWait = d }(below.CloseWait)
	below.CloseWait = time.Millisecond
	before := runtime.NumGoroutine()
	r, s, prompt, _ := standing(t)
	r.fast()
	s.get.Store(true)
	s.deaf.Store(true)
	x, _ := r.read(prompt, OpenOptions{})
	require.Zero(t, x.wait(r).Cached)
	var hung tier.ErrHung
	require.ErrorAs(t, r.pool.Close(), &hung)
	require.NoError(t, r.s.Close())
	close(s.letGo) // writes what it has now
	for n := 0; s.Tier.Stats().Hits == 0 || r.be.Info().Host.Pinned+r.be.Info().Host.Other > 0; n++ {
		require.Less(t, n, 60_000, "%+v", r.be.Info().Host)
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, r.be.Close())
	require.NoError(t, s.Tier.Close())
	nothingRuns(t, before)
}

// Of tiers that stand still one is tried at a time, and others have the memory that loads go through.
func TestProbesOneAtATime(t *testing.T) {
	r, s, prompt, end := standing(t)
	r.pool.Prefilled(0, 10, time.Second)
	s.get.Store(true)
	o := r.pool.below.Offload
	for i := range 10 {
		o.Planner().Observe(0, o.BlockBytes(), time.Duration(i+1)*time.Hour, time.Now().Add(-time.Hour)) // slow, and due
		x, m := r.read(prompt, OpenOptions{})
		require.Zero(t, m.Loading)
		require.NoError(t, x.seq.Release())
	}
	require.Less(t, s.asked.Load(), int64(2))
	end()
}
