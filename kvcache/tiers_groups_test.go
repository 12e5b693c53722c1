package kvcache

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// below is a grouped pool above a tier of the program's own, and a clock by which all that is cached leaves the device.
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
	s, m := w.open(prompt)
	require.Equal(t, 56, m.Loading)
	require.NoError(t, w.run(ask{s, prompt}))
	w.drop(s)
	w.evict()
	m, _ = w.pool.Match(prompt, OpenOptions{})
	require.Equal(t, 56, m.Loading)
	for range 20 { // the load is anywhere
		s, m = w.open(prompt)
		require.Positive(t, m.Loading+m.Cached)
		w.drop(s)
	}
	seq, m, err := w.pool.Open(prompt, OpenOptions{MustWait: true})
	require.NoError(t, err)
	s = &told{seq: seq}
	if m.Loading > 0 {
		require.ErrorIs(t, w.step.Add(seq, prompt), ErrLoading{})
		m = w.wait(s, prompt)
	}
	require.Equal(t, 56, m.Cached)
	require.NoError(t, seq.Release())
	w.close()
}

var _ = slices.Clone[[]int]
var _ = group.Full
var _ = config.Tiers{}
