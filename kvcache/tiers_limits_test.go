package kvcache

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// tenant is a scope with a share of its own.
var tenant = OpenOptions{Scope: prefix.Scope{Salt: []byte("tenant")}}

// given waits until a tenant holds nothing: the device, or a copy of blocks, may be behind.
func (r *rig[B]) given(o OpenOptions) {
	r.t.Helper()
	for n := 0; r.share(o).Held > 0; n++ {
		require.Less(r.t, n, 10_000)
		r.stats() // what the device is done with comes back
		time.Sleep(time.Millisecond)
	}
}

// share is what the tree has of a tenant.
func (r *rig[B]) share(o OpenOptions) prefix.Stats {
	r.t.Helper()
	s, err := r.pool.SaltStats(o.Scope)
	require.NoError(r.t, err)
	return s
}

// What comes from a tier counts against the quota as what is computed does: no more than that is in the tree, and its own
// blocks make room, not those of others.
func TestTierLoadsWithinQuotas(t *testing.T) {
	for quota, want := range map[int]int{1: 4, 3: 12, 5: 20, 6: 20} {
		r := tiered(t, 24, host(t))
		prompt := sequence(1, 23)
		r.below(prompt, tenant)
		r.cache(sequence(500, 17), OpenOptions{})
		r.cache(sequence(700, 5), tenant)
		r.flush() // who copies a block holds it
		require.NoError(t, r.pool.Limit(tenant.Scope, prefix.Limits{Quota: quota}))
		x, m := r.read(prompt, tenant)
		require.Equal(t, want, m.Loading)
		require.Equal(t, want, x.wait(r).Cached, "quota %d", quota)
		require.Equal(t, []int{want / 4, want / 4}, []int{r.share(tenant).Held, min(r.share(tenant).Blocks, want/4)})
		require.NoError(t, r.pool.Check())
		require.LessOrEqual(t, r.share(tenant).Blocks, quota)
		require.Equal(t, 17, r.matched(append(sequence(500, 17), 1), OpenOptions{}))
		r.check(r.s, x)
		require.NoError(t, r.prefill(r.s, x))
		r.check(r.s, x)
		require.LessOrEqual(t, r.share(tenant).Blocks, quota)
		require.NoError(t, x.seq.Release())
		r.flush()
		require.Zero(t, r.idle().Held)
		require.LessOrEqual(t, r.share(tenant).Blocks, quota)
		r.close()
	}
}

// A load that ends early leaves nothing that somebody holds, and nothing above the quota.
func TestTierLoadsEndWithinQuotas(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, r *rig[buffer], x *reader[buffer], m *moody){
		"release": func(t *testing.T, r *rig[buffer], x *reader[buffer], _ *moody) {},
		"cancel": func(t *testing.T, r *rig[buffer], x *reader[buffer], _ *moody) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := x.seq.Wait(ctx)
			require.ErrorIs(t, err, context.Canceled)
		},
		"compute": func(t *testing.T, r *rig[buffer], x *reader[buffer], _ *moody) { require.NoError(t, r.prefill(r.s, x)) },
		"fail": func(t *testing.T, r *rig[buffer], x *reader[buffer], m *moody) {
			m.bad.Store(100)
			x.wait(r)
		},
	} {
		m, err := memory.Open(memory.Options{Bytes: 16 << 20})
		require.NoError(t, err)
		moods := &moody{Tier: m}
		g := &gated{moods, make(chan struct{}, 100), make(chan struct{})}
		r := tiered(t, 24, config.Tiers{More: []tier.Tier{g}})
		prompt := sequence(1, 33)
		r.below(prompt, tenant)
		require.NoError(t, r.pool.Limit(tenant.Scope, prefix.Limits{Quota: 5}))
		x, match := r.read(prompt, tenant)
		require.Equal(t, 20, match.Loading)
		for range 3 {
			g.tickets <- struct{}{}
		}
		if name == "fail" {
			close(g.open)
		}
		end(t, r, x, moods)
		require.LessOrEqual(t, r.share(tenant).Blocks, 5, name)
		require.NoError(t, r.pool.Check())
		require.NoError(t, x.seq.Release())
		if name != "fail" {
			close(g.open)
		}
		require.Eventually(t, func() bool { return r.moves().Loading == 0 }, time.Minute, time.Millisecond)
		r.flush()
		require.Zero(t, r.idle().Held, name)
		r.given(tenant)
		require.LessOrEqual(t, r.share(tenant).Blocks, 5, name)
		r.close()
		require.NoError(t, m.Close())
	}
}

// What is met counts, too, and ends at the quota.
func TestMeetsWithinQuotas(t *testing.T) {
	prompt := sequence(1, 33)
	for quota := 4; quota <= 11; quota++ {
		r := tiered(t, 24, host(t))
		r.below(prompt, tenant)
		require.NoError(t, r.pool.Limit(tenant.Scope, prefix.Limits{Quota: quota}))
		y, _ := r.serve(sequence(700, 9), tenant) // has two of it
		x, _ := r.overlapped(prompt, tenant)
		<-x.seq.coming.Transfer.Done
		for len(x.rest) > 0 {
			before := x.seq.Len()
			n := min(4, len(x.rest))
			require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:n]}))
			if x.seq.Len() > before+n {
				x.arrived(r, Match{Cached: x.seq.Len(), Uncached: len(prompt) - x.seq.Len()})
			}
			r.check(r.s, x)
			require.LessOrEqual(t, r.share(tenant).Blocks, quota)
			require.NoError(t, r.pool.Check())
		}
		r.drop(x, y)
		r.flush()
		r.given(tenant)
		r.close()
	}
}

// With groups entries are what counts.
func TestGroupsLoadWithinQuotas(t *testing.T) {
	cfg := manyKinds(ruleWindow, config.Group{Layers: []int{1, 3}})
	cfg.Memory.RetainEvery = 1
	prompt := sequence(1, 42)
	for quota := 1; quota <= 10; quota++ {
		w, _ := aboveStore(t, cfg)
		w.serveAll(prompt)
		w.evict()
		require.NoError(t, w.pool.Limit(prefix.Scope{}, prefix.Limits{Quota: quota}))
		s, m := w.open(prompt)
		require.Equal(t, 4*quota, m.Loading)
		m = w.wait(s, prompt)
		require.Equal(t, 4*quota, m.Cached, "a beginning of the prompt with the windows there, not one without")
		require.LessOrEqual(t, w.share(OpenOptions{}).Blocks, quota)
		require.NoError(t, w.pool.Check())
		require.NoError(t, w.run(ask{s, prompt[m.Cached:]}))
		require.LessOrEqual(t, w.share(OpenOptions{}).Blocks, quota)
		w.drop(s)
		w.flush()
		w.given(OpenOptions{})
		w.close()
	}
}

// A block that comes back is kept as its sequence asks for, and so are those before it.
func TestTierLoadsAreKeptAsAsked(t *testing.T) {
	r := tiered(t, 16, host(t), func(c *Config) { c.Memory.Prefix = prefix.Priority })
	prompts := [][]uint32{sequence(1, 17), sequence(500, 17)}
	for _, p := range prompts {
		r.cache(p, OpenOptions{})
	}
	r.flush()
	r.forget()
	for i, p := range prompts {
		x, m := r.read(p, OpenOptions{RetentionHint: prefix.RetentionHint{Priority: 9 - 9*i}})
		require.Equal(t, 16, m.Loading)
		require.Equal(t, 16, x.wait(r).Cached)
		require.NoError(t, x.seq.Release())
	}
	r.flush() // what is looked at to be stored makes no room
	r.cache(sequence(900, 44-8), OpenOptions{NoPublish: true})
	require.Equal(t, []int{16, 12}, []int{r.matched(prompts[0], OpenOptions{}), r.matched(prompts[1], OpenOptions{})})

	r.forget()
	x, _ := r.read(prompts[0], OpenOptions{RetentionHint: prefix.RetentionHint{TTL: time.Nanosecond}})
	require.Equal(t, 16, x.wait(r).Cached)
	require.NoError(t, x.seq.Release())
	require.Eventually(t, func() bool { return r.matched(prompts[0], OpenOptions{}) == 0 }, time.Minute, time.Millisecond)
	r.close()
}

// What is met is kept as asked, and in a pool with groups.
func TestMeetsAreKeptAsAsked(t *testing.T) {
	prompt := sequence(1, 33)
	r := tiered(t, 24, host(t))
	r.below(prompt, OpenOptions{})
	x, _ := r.overlapped(prompt, OpenOptions{RetentionHint: prefix.RetentionHint{TTL: time.Nanosecond}})
	<-x.seq.coming.Transfer.Done
	require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:4]}))
	require.Equal(t, 32, x.seq.Len())
	require.NoError(t, x.seq.Release())
	require.Eventually(t, func() bool { return r.matched(prompt, OpenOptions{}) == 0 }, time.Minute, time.Millisecond)
	r.close()
}

// What came is not set aside once more.
func TestTierLoadsUseUpReservations(t *testing.T) {
	prompt := sequence(1, 33)
	for name, cfg := range map[string]Config{"plain": {}, "residual": {Storage: config.Storage{K: backend.Int8, V: backend.Int8, Residual: 4}}} {
		r := tiered(t, 40, host(t), func(c *Config) {
			if name == "residual" {
				c.Storage = cfg.Storage
			}
		})
		r.below(prompt, OpenOptions{})
		x, m := r.read(prompt, OpenOptions{})
		require.Positive(t, m.Loading, name)
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{x.seq, 40}))
		had := r.stats().Reserved
		m = x.wait(r)
		require.Positive(t, m.Cached)
		require.Equal(t, had-m.Cached/4, r.stats().Reserved, name)
		require.NoError(t, r.pool.Reserve(Reservation[buffer]{x.seq, 40}))
		require.Equal(t, had-m.Cached/4, r.stats().Reserved, name)
		require.NoError(t, r.prefill(r.s, x))
		for x.seq.Len() < 40 {
			require.NoError(t, r.run(r.s, part[buffer]{x, sequence(7, 1)}))
		}
		require.Zero(t, r.stats().Reserved, name)
		r.drop(x)
		r.close()
	}
}

// Nor is what is met.
func TestMeetsUseUpReservations(t *testing.T) {
	prompt := sequence(1, 33)
	r := tiered(t, 40, host(t))
	r.below(prompt, OpenOptions{})
	x, _ := r.overlapped(prompt, OpenOptions{})
	<-x.seq.coming.Transfer.Done
	require.NoError(t, r.pool.Reserve(Reservation[buffer]{x.seq, 40}))
	require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:4]}))
	require.Equal(t, 32, x.seq.Len())
	require.Equal(t, 2, r.stats().Reserved)
	require.NoError(t, x.seq.Release())
	r.close()
}

// In a pool with groups every part uses up its own.
func TestGroupsLoadsUseUpReservations(t *testing.T) {
	for name, first := range map[string]config.Group{
		"window": ruleWindow, "chunk": {Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 12}, "state": ruleState,
		"begun chunk": {Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 12}, // of which the sequence has two blocks, and then none
	} {
		rest := config.Group{Layers: []int{1, 3}}
		if strings.HasSuffix(name, "chunk") {
			rest.Layers = []int{2}
		} else if name == "state" {
			rest.Layers = []int{1}
		}
		cfg := manyKinds(first, rest)
		cfg.Memory.RetainEvery, cfg.Memory.Blocks = 1, 120
		prompt, found := sequence(1, 42), 0
		if name == "begun chunk" {
			prompt, found = sequence(1, 38), 8
		}
		w, _ := aboveStore(t, cfg)
		w.serveAll(prompt)
		w.evict()
		if found > 0 {
			w.serveAll(append(prompt[:found:found], 999))
		}
		s, m := w.open(prompt)
		require.Equal(t, found, m.Cached, name)
		require.Positive(t, m.Loading, name)
		require.NoError(t, w.pool.Reserve(Reservation[buffer]{s.seq, 60}))
		m = w.wait(s, prompt)
		require.Positive(t, m.Cached, name)
		got := w.stats().Reserved
		require.NoError(t, w.pool.Check())

		x, m := w.open(prompt) // it is found now
		require.Equal(t, s.seq.Len(), m.Cached)
		require.NoError(t, w.pool.Reserve(Reservation[buffer]{x.seq, 60}))
		require.Equal(t, w.stats().Reserved-got, got, name)
		require.NoError(t, w.pool.Reserve(Reservation[buffer]{s.seq, 60}))
		require.Equal(t, 2*got, w.stats().Reserved, name)
		w.drop(x)
		for err, i := error(nil), 0; err == nil; i++ { // what is promised is there, whatever others take
			y, _ := w.open(nil)
			err = w.run(ask{y, sequence(900+10*i, 4)})
		}
		for _, tokens := range [][]uint32{prompt[m.Cached:], sequence(300, 9), sequence(400, 9)} {
			require.NoError(t, w.run(ask{s, tokens}), name)
		}
		for len(w.seqs) > 0 {
			w.drop(w.seqs[0])
		}
		w.close()
	}
}

// A scope that is forgotten costs others at most what was on its way for them, which they compute.
func TestTierLoadsAndClearOfAnotherScope(t *testing.T) {
	prompt := sequence(1, 33)
	for _, overlap := range []bool{false, true} {
		r, g, end := meeting(t, prompt)
		if overlap {
			r.knows()
		}
		x, m := r.read(prompt, OpenOptions{Overlap: overlap})
		require.Equal(t, 32, m.Loading)
		require.NoError(t, r.pool.ClearScope(tenant.Scope, true))
		close(g.open)
		if !overlap {
			x.wait(r)
		}
		for len(x.rest) > 0 {
			before, n := x.seq.Len(), min(4, len(x.rest))
			require.NoError(t, r.run(r.s, part[buffer]{x, x.rest[:n]}))
			if x.seq.Len() > before+n {
				x.arrived(r, Match{Cached: x.seq.Len(), Uncached: len(prompt) - x.seq.Len()})
			}
			r.check(r.s, x)
			require.NoError(t, r.pool.Check())
		}
		r.drop(x)
		require.Equal(t, 32, r.matched(prompt, OpenOptions{}), "what it computed is shared")
		r.forget()
		m, err := r.pool.Match(prompt, OpenOptions{})
		require.NoError(t, err)
		require.Equal(t, 32, m.Loading, "and is in tiers as before, overlap %v", overlap)
		end()
	}
}
