package kvcache

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/offload"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// tiered is a rig of so many blocks of 4 tokens above tiers.
func tiered(t testT, blocks int, tiers config.Tiers, edit ...func(*Config)) *rig[buffer] {
	cfg := small(LayoutUnset)
	cfg.Memory.BlockSize, cfg.Memory.Blocks, cfg.Memory.Prefix, cfg.Tiers = 4, blocks, prefix.LRU, tiers
	cfg.Model.Digest = []byte("weights")
	for _, e := range edit {
		e(&cfg)
	}
	return deviceRig(t, cfg)
}

// host is a tier of the program's own, which all devices have.
func host(t testT) config.Tiers {
	m, err := memory.Open(memory.Options{Bytes: 16 << 20})
	require.NoError(t, err)
	return config.Tiers{More: []tier.Tier{m}}
}

// flush waits until all that is written is in tiers.
func (r *rig[B]) flush() {
	r.t.Helper()
	require.NoError(r.t, r.s.Sync())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(r.t, r.pool.Flush(ctx))
}

// moves is what went to tiers and back by now.
func (r *rig[B]) moves() offload.Stats {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return r.pool.below.Offload.Stats()
}

// forget has all that is cached evicted.
func (r *rig[B]) forget() {
	r.t.Helper()
	var all []*reader[B]
	for n := 4 * r.stats().Blocks; n > 0; n -= 40 {
		x, _ := r.read(nil, OpenOptions{NoPublish: true})
		require.NoError(r.t, r.run(r.s, part[B]{x, sequence(10_000, min(n, 40))}))
		all = append(all, x)
	}
	for _, x := range all {
		require.NoError(r.t, x.seq.Release())
	}
	require.Zero(r.t, r.idle().Cached)
}

// below has a prompt in tiers and not on the device.
func (r *rig[B]) below(prompt []uint32, o OpenOptions) {
	r.t.Helper()
	r.cache(prompt, o)
	r.flush()
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	require.NoError(r.t, r.pool.parts.Blocks.Reclaim())
	require.True(r.t, r.pool.tree.EvictAny(r.pool.tree.Stats().Cached))
}

// wait has what is on its way arrive.
func (x *reader[B]) wait(r *rig[B]) Match {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := x.seq.Wait(ctx)
	require.NoError(r.t, err)
	x.arrived(r, m)
	return m
}

// arrived notes what a sequence has of its prompt.
func (x *reader[B]) arrived(r *rig[B], m Match) {
	r.t.Helper()
	prompt := append(append([]uint32(nil), x.tokens...), x.rest...)
	require.Equal(r.t, m.Cached, x.seq.Len())
	require.GreaterOrEqual(r.t, m.Cached, len(x.tokens))
	require.Equal(r.t, len(prompt), m.Cached+m.Uncached)
	x.tokens, x.rest = prompt[:m.Cached:m.Cached], prompt[m.Cached:]
	x.want = x.plain(m.Cached)
}

// What left the device comes back from a tier, as it was, and the rest is computed.
func TestEvictedBlocksComeBack(t *testing.T) {
	r := tiered(t, 12, host(t))
	prompt := sequence(1, 23)
	r.below(prompt, OpenOptions{})
	require.Zero(t, r.matched(prompt, OpenOptions{}))
	m, err := r.pool.Match(prompt, OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, Match{Uncached: 23, MissReason: prefix.WasEvicted, Loading: 20}, m)

	x, m := r.read(prompt, OpenOptions{})
	require.Equal(t, 20, m.Loading)
	m = x.wait(r)
	require.Equal(t, Match{Cached: 20, Uncached: 3, MissReason: prefix.NotLookedUp, Tiers: []int{20}}, m)
	r.check(r.s, x)
	require.NoError(t, r.prefill(r.s, x))
	r.check(r.s, x)
	y, m := r.read(prompt, OpenOptions{})
	require.Equal(t, 20, m.Cached, "others find it, too")
	s := r.stats()
	bytes := s.Moves.BlockBytes
	require.Positive(t, bytes)
	require.Len(t, s.Tiers, 1)
	require.Equal(t, r.pool.Tiers()[0], s.Tiers[0].Info)
	require.Equal(t, []int64{20, 5, 5 * bytes}, []int64{s.Tiers[0].Tokens, s.Tiers[0].Moves.Loaded, s.Tiers[0].Stats.Read})
	require.Equal(t, []int64{s.Moves.Stored, s.Moves.Stored * bytes, 5}, []int64{s.Tiers[0].Stats.Blocks, s.Tiers[0].Moves.StoredBytes, s.Moves.Loaded})
	require.Zero(t, s.Moves.Loading)
	r.drop(y, x)
	r.close()
}

// A runner that does not wait computes.
func TestNotWaiting(t *testing.T) {
	r := tiered(t, 12, host(t))
	prompt := sequence(1, 23)
	r.below(prompt, OpenOptions{})
	x, m := r.read(prompt, OpenOptions{})
	require.Equal(t, 20, m.Loading)
	require.NoError(t, r.prefill(r.s, x))
	r.check(r.s, x)
	require.Equal(t, Match{Cached: 23, MissReason: prefix.NotLookedUp}, x.wait(r))
	r.drop(x)
	r.close()
}

// Of what goes down and comes back scopes are as apart as on the device, and what is not offered to others is not stored.
func TestTiersKeepScopesApart(t *testing.T) {
	r := tiered(t, 20, host(t))
	prompt := sequence(1, 23)
	options := []OpenOptions{{}, {Scope: prefix.Scope{Salt: []byte("a")}}, {Scope: prefix.Scope{Salt: []byte("b")}},
		{Scope: prefix.Scope{Adapter: &prefix.Adapter{ID: "x", Version: "1"}}}, {Items: []prefix.Item{{Begin: 5, End: 7, Hash: []byte("dog")}}}}
	for i, o := range options {
		for j, other := range options {
			m, err := r.pool.Match(prompt, other)
			require.NoError(t, err)
			switch {
			case i > 0 && j == 4:
				require.Equal(t, 4, m.Loading, "what is before the image")
			case j >= i:
				require.Zero(t, m.Loading, "%d %d", i, j)
			default:
				require.Equal(t, 20, m.Loading, "%d %d", i, j)
			}
		}
		r.cache(prompt, o)
		r.flush()
		r.forget()
	}
	r.cache(sequence(500, 23), OpenOptions{NoPublish: true})
	r.flush()
	m, err := r.pool.Match(sequence(500, 23), OpenOptions{})
	require.NoError(t, err)
	require.Zero(t, m.Loading)
	for _, o := range options {
		x, _ := r.read(prompt, o)
		require.Equal(t, 20, x.wait(r).Cached)
		r.drop(x)
	}

	require.NoError(t, r.pool.ClearScope(options[1].Scope, false))
	require.Zero(t, r.matched(prompt, options[1]))
	m, err = r.pool.Match(prompt, options[1])
	require.NoError(t, err)
	require.Zero(t, m.Loading)
	require.Equal(t, 20, r.matched(prompt, options[2]))
	require.NoError(t, r.pool.Clear(false))
	for _, o := range options {
		m, err := r.pool.Match(prompt, o)
		require.NoError(t, err)
		require.Zero(t, m.Cached+m.Loading)
	}
	r.close()
}

// A draft that is rejected goes nowhere.
func TestDraftsStayUp(t *testing.T) {
	r := tiered(t, 12, host(t))
	x, _ := r.read(sequence(1, 6), OpenOptions{})
	require.NoError(t, r.prefill(r.s, x))
	require.NoError(t, r.step.Reset())
	draft := sequence(7, 10)
	require.NoError(t, r.step.AddDraft(x.seq, draft, 10))
	require.NoError(t, r.step.Plan(r.s))
	r.write(r.s, feed[buffer]{x.seq, x.ids(draft)})
	require.NoError(t, r.step.Commit())
	r.flush()
	m, err := r.pool.Match(sequence(1, 16), OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 4, m.Cached+m.Loading)
	require.NoError(t, x.seq.Truncate(9))
	require.NoError(t, x.seq.Release())
	r.flush()
	r.forget()
	m, err = r.pool.Match(sequence(1, 16), OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 8, m.Loading, "what was accepted")
	r.close()
}

// The next process finds what the last one left on the disk, and nobody else's.
func TestDiskOutlivesThePool(t *testing.T) {
	dir := t.TempDir()
	on := config.Tiers{Disk: config.Disk{Dir: dir, Bytes: 4 << 20, Floor: 1}}
	prompt := sequence(1, 23)
	r := tiered(t, 12, on)
	r.cache(prompt, OpenOptions{})
	_, err := NewPool(r.be, r.pool.Config())
	require.ErrorContains(t, err, "in use")
	r.close() // what is on its way arrives

	for _, edit := range []func(*Config){ // case 14
		func(c *Config) { c.Model.Digest = []byte("others") },
		func(c *Config) { c.Storage.K = backend.F16 },
		func(c *Config) { c.Model.Layers = 1 },
		func(c *Config) { c.Memory.BlockSize = 8 },
		func(c *Config) { c.Model.RoPE = &backend.RoPE{Theta: 5000} },
	} {
		r := tiered(t, 12, on, edit)
		m, err := r.pool.Match(prompt, OpenOptions{})
		require.NoError(t, err)
		require.Zero(t, m.Loading)
		r.close()
	}
	r = tiered(t, 12, on)
	x, m := r.read(prompt, OpenOptions{})
	require.Equal(t, 20, m.Loading)
	require.Equal(t, 20, x.wait(r).Cached)
	require.NoError(t, r.prefill(r.s, x))
	_, _, err = r.pool.Open(nil, OpenOptions{Scope: prefix.Scope{Adapter: &prefix.Adapter{ID: "x"}}})
	var bad ErrConfig
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "Adapter.Version", bad.Name)
	r.drop(x)
	r.close()
}

// Nobody else may write where blocks are kept.
func TestDirectoryOfOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("rights are those of the folder")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o770))
	cfg := small(LayoutUnset)
	cfg.Memory.BlockSize, cfg.Model.Digest, cfg.Tiers.Disk = 4, []byte("weights"), config.Disk{Dir: dir, Bytes: 1 << 20, Floor: 1}
	be := openDevice(t)
	_, err := NewPool(be, cfg)
	require.ErrorAs(t, err, new(tier.ErrConfig))
	require.ErrorContains(t, err, dir)
	require.Zero(t, be.Info().Buffers)
	require.NoError(t, be.Close())
}

// What cannot be is said before anything is allocated.
func TestTiersThatCannotBe(t *testing.T) {
	be := openDevice(t)
	for _, c := range []struct {
		name string
		edit func(*Config)
	}{
		{"Memory.Layout", func(c *Config) {
			c.Memory.Layout, c.Memory.BlockSize, c.Memory.Blocks, c.Memory.Prefix = Contiguous, 0, 0, 0
		}},
		{"Memory.Prefix", func(c *Config) { c.Memory.Prefix = prefix.Off }},
		{"Model.Digest", func(c *Config) { c.Tiers = config.Tiers{Disk: config.Disk{Dir: t.TempDir()}} }},
		{"Tiers.HostBytes", func(c *Config) { c.Tiers.HostBytes = -2 }},
		{"Tiers.More", func(c *Config) { c.Tiers.More = []tier.Tier{nil} }},
	} {
		cfg := small(LayoutUnset)
		cfg.Memory.BlockSize, cfg.Tiers.HostBytes = 4, 1<<20
		c.edit(&cfg)
		_, err := NewPool(be, cfg)
		var bad ErrConfig
		require.ErrorAs(t, err, &bad, c.name)
		require.Equal(t, c.name, bad.Name)
		require.Zero(t, be.Info().Buffers)
	}
	require.NoError(t, be.Close())
}

// On a device that is behind nothing is packed before it is written, and nothing is read before it is filled.
func TestTiersOfALateDevice(t *testing.T) {
	cfg := small(LayoutUnset)
	cfg.Memory.BlockSize, cfg.Memory.Blocks, cfg.Memory.Prefix, cfg.Tiers = 4, 12, prefix.LRU, host(t)
	r, dev, be := lateRig(t, cfg)
	for range 5 {
		prompt := sequence(1, 23)
		x, m := r.read(prompt, OpenOptions{})
		if m.Loading > 0 {
			require.Equal(t, 20, x.wait(r).Cached)
		}
		require.NoError(t, r.prefill(r.s, x))
		require.NoError(t, r.run(r.s, part[buffer]{x, sequence(500, 4)}))
		require.NoError(t, x.seq.Suspend())
		require.NoError(t, x.seq.Resume())
		r.check(r.s, x)
		require.NoError(t, x.seq.Release())
		r.flush()
		r.forget()
		require.Zero(t, r.matched(prompt, OpenOptions{}))
	}
	st, err := r.pool.Stats()
	require.NoError(t, err)
	require.Zero(t, st.Held)
	closeLate(t, r, dev, be)
}

// What a device finishes after the last call goes down by itself.
func TestStoredWithoutAnotherCall(t *testing.T) {
	cfg := small(LayoutUnset)
	cfg.Memory.BlockSize, cfg.Memory.Blocks, cfg.Memory.Prefix, cfg.Tiers = 4, 12, prefix.LRU, host(t)
	r, dev, be := lateRig(t, cfg)
	below := cfg.Tiers.More[0]
	time.Sleep(10 * time.Millisecond) // the storer has nothing to do by now
	x, _ := r.read(sequence(1, 23), OpenOptions{})
	require.NoError(t, r.prefill(r.s, x))
	for below.Stats().Blocks < 5 {
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, x.seq.Release())
	r.flush()
	closeLate(t, r, dev, be)
}
