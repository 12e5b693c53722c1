package kvcache

import (
	"cmp"
	"context"
	"maps"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// evict has all that is cached leave the device, once it is in tiers.
func (w *grouped) evict() {
	w.t.Helper()
	w.flush()
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	require.NoError(w.t, w.pool.parts.Blocks.Reclaim())
	require.True(w.t, w.pool.parts.Blocks.Groups().EvictAny(w.pool.parts.Stats().Cached))
}

// wait has what is on its way for a sequence arrive.
func (w *grouped) wait(s *told, prompt []uint32) Match {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := s.seq.Wait(ctx)
	require.NoError(w.t, err)
	require.Equal(w.t, m.Cached, s.seq.Len())
	require.GreaterOrEqual(w.t, m.Cached, len(s.ids))
	s.ids = append([]uint32(nil), prompt[:m.Cached]...)
	return m
}

// pagedKinds are the configurations with groups that have tiers, above one.
func pagedKinds(t testT) map[string]Config {
	all := chosenKinds()
	maps.DeleteFunc(all, func(_ string, c Config) bool { return c.Memory.Layout != Paged })
	for name, cfg := range all {
		cfg.Tiers = host(t)
		all[name] = cfg
	}
	return all
}

// What the device had of a prompt, for layers of every kind, comes back from a tier as it was.
func TestGroupsComeBack(t *testing.T) {
	for name, cfg := range pagedKinds(t) {
		t.Run(name, func(t *testing.T) {
			w := newGrouped(t, cfg, 1)
			prompt := sequence(1, 61)
			w.serveAll(prompt)
			had := w.matched(prompt, OpenOptions{})
			had -= had % w.pool.cfg.EntryTokens()
			w.evict()
			require.Zero(t, w.matched(prompt, OpenOptions{}))
			s, m := w.open(prompt)
			require.Equal(t, had, m.Loading)
			m = w.wait(s, prompt)
			require.Equal(t, had, m.Cached)
			if had > 0 {
				require.Equal(t, []int{had}, m.Tiers)
			}
			require.NoError(t, w.pool.Check())
			require.NoError(t, w.run(ask{s, prompt[m.Cached:]}))
			require.NoError(t, w.run(ask{s, sequence(300, 30)}))
			require.Equal(t, had, w.matched(prompt, OpenOptions{})/max(had, 1)*had, "others find it, too")
			w.drop(s)
			w.close()
		})
	}
}

// Who does not wait computes, and what came meanwhile is given back.
func TestGroupsNotWaiting(t *testing.T) {
	cfg := pagedKinds(t)["all"]
	w := newGrouped(t, cfg, 1)
	prompt := sequence(1, 61)
	w.serveAll(prompt)
	w.evict()
	whole := 60 / w.pool.cfg.EntryTokens() * w.pool.cfg.EntryTokens() // of blocks as the device has them
	s, m := w.open(prompt)
	require.Equal(t, whole, m.Loading)
	require.NoError(t, w.run(ask{s, prompt}))
	w.drop(s)
	w.evict()
	m, _ = w.pool.Match(prompt, OpenOptions{})
	require.Equal(t, whole, m.Loading)
	for range 20 { // the load is anywhere
		s, m = w.open(prompt)
		require.Positive(t, m.Loading+m.Cached)
		w.drop(s)
	}
	seq, m, err := w.pool.Open(prompt, OpenOptions{})
	require.NoError(t, err)
	s = &told{seq: seq}
	if m.Loading > 0 {
		m = w.wait(s, prompt)
	}
	require.Equal(t, whole, m.Cached)
	require.NoError(t, seq.Release())
	w.close()
}

// Random histories of pools too small for their sequences, above a tier too small for all that leaves them: as in
// TestGroupsModel, and what is written for a token depends on all before it, so that what comes back to the wrong place shows.
func TestGroupsAboveTiersModel(t *testing.T) {
	n := cmp.Or(*operations, 50)
	if *operations == 0 && testDevice().HeadDims != nil {
		n = 5
	}
	took := 0
	for name, cfg := range pagedKinds(t) {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				cfg := cfg
				cfg.Memory.Rollback = max(cfg.Memory.Rollback, []int{-1, 3, 0}[seed])
				cfg.Memory.RetainEvery = []int{1, 2, 0}[seed]
				cfg.Memory.Blocks = 70
				near, err := memory.Open(memory.Options{Name: "near", Bytes: 1 << (15 + seed)})
				require.NoError(t, err)
				moods := &moody{Tier: near}
				cfg.Tiers.More = append([]tier.Tier{moods}, cfg.Tiers.More...)
				w := newGrouped(t, cfg, seed)
				w.mixes = true
				for range n {
					w.act()
					w.upset(moods)
					require.NoError(t, w.pool.Check())
					w.listen()
				}
				for len(w.seqs) > 0 {
					w.drop(w.seqs[0])
				}
				for _, tokens := range w.moves().Tokens {
					took += int(tokens)
				}
				w.close()
				require.NoError(t, near.Close())
			}
		})
	}
	require.Positive(t, took)
	t.Logf("%d tokens came back", took)
}

// upset has what is cached leave the device now and then, or be forgotten, and a tier have its moods.
func (w *grouped) upset(m *moody) {
	w.t.Helper()
	switch w.rng.IntN(30) {
	case 0, 1:
		w.evict()
	case 2, 5, 6, 7:
		for len(w.seqs) > 0 {
			w.drop(w.seqs[0])
		}
		w.evict()
		for range 3 {
			w.begin()
		}
	case 3:
		m.bad.Store(int32([]int{0, 0, 30, 100}[w.rng.IntN(4)]))
		m.lies.Store(int32([]int{0, 30}[w.rng.IntN(2)]))
	case 4:
		m.bad.Store(0) // else it may have some yet, which Clear says
		require.NoError(w.t, w.pool.Clear(true))
		got, err := w.pool.Match(sequence(100, 50), OpenOptions{})
		require.NoError(w.t, err)
		require.Zero(w.t, got.Cached+got.Loading, "%d cached, %d loading", got.Cached, got.Loading)
	}
}

// The same on a device that is behind: nothing is packed before it is written, and nothing read before it is filled.
func TestGroupsAboveTiersOnALateDevice(t *testing.T) {
	n := 40
	if testDevice().HeadDims != nil {
		n = 4
	}
	for name, cfg := range pagedKinds(t) {
		t.Run(name, func(t *testing.T) {
			cfg.Memory.Blocks = 70
			r, dev, be := lateRig(t, signed(cfg))
			w := groupedOn(r, 5)
			w.mixes = true
			for range n {
				w.act()
				w.upset(&moody{})
				require.NoError(t, w.pool.Check())
			}
			for len(w.seqs) > 0 {
				w.drop(w.seqs[0])
			}
			w.flush()
			for range 1000 { // loads that nobody wants any more end
				if w.idle().Held == 0 {
					break
				}
				time.Sleep(time.Millisecond)
			}
			closeLate(t, r, dev, be)
		})
	}
}
