package kvcache

import (
	"bytes"
	"context"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// lies are what a tier may do to blocks, one or more, that it claims to have read.
var lies = map[string]func(blocks []tier.Block){
	"a flipped bit": func(b []tier.Block) { b[0].Bytes[len(b[0].Bytes)-1] ^= 1 },
	"another sum":   func(b []tier.Block) { b[0].Sum ^= 1 << 31 },
	"another block": func(b []tier.Block) { exchange(&b[0], &b[len(b)-1]) },
	"half of it":    func(b []tier.Block) { scribble(b[0].Bytes[len(b[0].Bytes)/2:]) },
	"none of it":    func(b []tier.Block) { scribble(b[0].Bytes) },
	"zeros":         func(b []tier.Block) { clear(b[0].Bytes); b[0].Sum = 0 },
	"bytes elsewhere": func(b []tier.Block) {
		scribble(b[0].Bytes)
		b[0].Bytes = make([]byte, len(b[0].Bytes))
		b[0].Sum = b[0].Summed()
	},
	"a key of its own": func(b []tier.Block) { b[0].Key[0]++; b[0].Bytes[0]++; b[0].Sum = b[0].Summed() },
}

// forgery is a lie with a valid sum, which only a secret detects.
func forgery(b []tier.Block) {
	b[0].Bytes[0]++
	b[0].Sum = b[0].Summed()
}

func scribble(b []byte) { copy(b, bytes.Repeat([]byte{0x3c}, len(b))) }

// exchange exchanges payloads and sums, or changes the block if there is only one.
func exchange(a, b *tier.Block) {
	if a == b || len(a.Bytes) != len(b.Bytes) {
		a.Bytes[0]++
		return
	}
	one := bytes.Clone(a.Bytes)
	copy(a.Bytes, b.Bytes)
	copy(b.Bytes, one)
	a.Sum, b.Sum = b.Sum, a.Sum
}

// liar is a tier that, on request, does something to what it reads.
type liar struct {
	tier.Tier
	lie     atomic.Pointer[func(blocks []tier.Block)]
	deleted atomic.Int32
}

func (l *liar) Get(ctx context.Context, blocks []tier.Block) (int, error) {
	n, err := l.Tier.Get(ctx, blocks)
	if lie := l.lie.Load(); n > 0 && lie != nil {
		(*lie)(blocks[n/2 : n])
	}
	return n, err
}

func (l *liar) Delete(ctx context.Context, keys []tier.Key) error {
	l.deleted.Add(int32(len(keys)))
	return l.Tier.Delete(ctx, keys)
}

// lying is two tiers, of which one may lie.
func lying(t testT, above bool, secret []byte) (on config.Tiers, l *liar, honest tier.Tier, at int) {
	var in [2]*memory.Tier
	for i, name := range []string{"liar", "honest"} {
		m, err := memory.Open(memory.Options{Name: name, Bytes: 16 << 20})
		require.NoError(t, err)
		in[i] = m
	}
	l, on.Secret = &liar{Tier: in[0]}, secret
	if above {
		on.More = []tier.Tier{l, in[1]}
		return on, l, in[1], 0
	}
	on.More = []tier.Tier{in[1], l}
	return on, l, in[1], 1
}

var tiersSecret = bytes.Repeat([]byte{9}, 32)

// eachLie calls a test with each lie of a tier above or below another one, with and without a secret.
func eachLie(t *testing.T, test func(t *testing.T, above bool, secret []byte, lie func(blocks []tier.Block))) {
	all := maps.Clone(lies)
	all["a forgery"] = forgery
	for name, lie := range all {
		for _, above := range []bool{true, false} {
			for _, secret := range [][]byte{nil, tiersSecret} {
				if name == "a forgery" && secret == nil || name == "another sum" && secret != nil { // which is not needed there
					continue
				}
				place := map[bool]string{true: "above", false: "below"}[above]
				if secret != nil {
					place += " sealed"
				}
				t.Run(name+"/"+place, func(t *testing.T) { test(t, above, secret, lie) })
			}
		}
	}
}

// A wrong block from a tier gets neither into the pool nor into another tier: it comes from another one, or is computed. It is
// counted and deleted from the tier, whose right blocks are used later.
func TestTiersThatLie(t *testing.T) {
	eachLie(t, func(t *testing.T, above bool, secret []byte, lie func(blocks []tier.Block)) {
		on, l, honest, at := lying(t, above, secret)
		r := tiered(t, 12, on)
		prompt := sequence(1, 23)
		r.below(prompt, OpenOptions{})
		l.lie.Store(&lie)
		want := 20
		if !above { // only the liar has it
			require.NoError(t, honest.Clear(context.Background(), tier.Key{}))
			want = 8
		}
		x, m := r.read(prompt, OpenOptions{})
		require.Equal(t, 20, m.Loading)
		m = x.wait(r)
		require.Equal(t, want, m.Cached)
		r.check(r.s, x)
		require.NoError(t, r.prefill(r.s, x))
		r.check(r.s, x)
		require.NoError(t, r.pool.Check())
		r.drop(x)
		s := r.stats()
		require.Positive(t, s.Tiers[at].Moves.Corrupt)
		require.Zero(t, s.Tiers[1-at].Moves.Corrupt)
		require.Positive(t, l.deleted.Load())

		l.lie.Store(nil)
		for _, alone := range []bool{false, true} { // with the other tier, which has what was promoted, and by itself
			if alone {
				require.NoError(t, honest.Clear(context.Background(), tier.Key{}))
			}
			r.below(prompt, OpenOptions{})
			x, m = r.read(prompt, OpenOptions{})
			require.Equal(t, 20, m.Loading)
			require.Equal(t, 20, x.wait(r).Cached)
			r.check(r.s, x)
			r.drop(x)
		}
		require.Equal(t, s.Tiers[at].Moves.Corrupt, r.stats().Tiers[at].Moves.Corrupt)
		r.close()
	})
}

// Nor if several pools share it, each with a tier above: what one of them reads there does not get into its own.
func TestSharedTierThatLies(t *testing.T) {
	eachLie(t, func(t *testing.T, above bool, secret []byte, lie func(blocks []tier.Block)) {
		if above {
			t.Skip("a shared one is below")
		}
		on, l, _, _ := lying(t, false, secret)
		prompt := sequence(1, 23)
		first := tiered(t, 12, on)
		first.below(prompt, OpenOptions{})
		first.close()
		own := host(t)
		second := tiered(t, 12, config.Tiers{More: []tier.Tier{own.More[0], l}, Secret: secret})
		for round := range 2 { // the second time from its own
			if l.lie.Store(nil); round == 0 {
				l.lie.Store(&lie)
			}
			x, m := second.read(prompt, OpenOptions{})
			require.Positive(t, m.Loading)
			m = x.wait(second)
			if round == 0 {
				require.Equal(t, Match{Cached: 8, Uncached: 15, MissReason: prefix.NotLookedUp, Tiers: []int{0, 8}}, m)
			}
			second.check(second.s, x)
			require.NoError(t, second.prefill(second.s, x))
			second.check(second.s, x)
			second.drop(x)
			second.flush()
			second.forget()
		}
		require.Equal(t, int64(1), second.stats().Tiers[1].Moves.Corrupt)
		second.close()
	})
}

// Nor above a store that keeps the last tokens as they were computed, whose blocks get there quantized.
func TestTiersThatLieBelowAWindow(t *testing.T) {
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			on, l, _, _ := lying(t, true, nil)
			r := tiered(t, 36, on, func(c *Config) {
				c.Storage = Storage{K: backend.Int8, V: backend.Int8, Residual: 4}
				c.Model.Act = backend.F32
			})
			prompt := sequence(1, 23)
			r.below(prompt, OpenOptions{})
			l.lie.Store(&lie)
			x, m := r.read(prompt, OpenOptions{})
			require.Positive(t, m.Loading)
			require.Equal(t, m.Loading, x.wait(r).Cached)
			r.check(r.s, x)
			require.NoError(t, r.prefill(r.s, x))
			r.check(r.s, x)
			require.Positive(t, r.stats().Tiers[0].Moves.Corrupt)
			r.drop(x)
			r.close()
		})
	}
}

// Nor on a device that lags.
func TestTiersThatLieToALateDevice(t *testing.T) {
	eachLie(t, func(t *testing.T, above bool, secret []byte, lie func(blocks []tier.Block)) {
		cfg := small(LayoutUnset)
		on, l, _, at := lying(t, above, secret)
		cfg.Memory.BlockSize, cfg.Memory.Blocks, cfg.Memory.Prefix, cfg.Tiers = 4, 12, prefix.LRU, on
		r, dev, be := lateRig(t, cfg)
		l.lie.Store(&lie)
		prompt := sequence(1, 23)
		for range 3 {
			x, m := r.read(prompt, OpenOptions{})
			if m.Loading > 0 {
				x.wait(r)
			}
			require.NoError(t, r.prefill(r.s, x))
			r.check(r.s, x)
			require.NoError(t, x.seq.Release())
			r.flush()
			r.forget()
		}
		if at == 0 {
			require.Positive(t, r.stats().Tiers[at].Moves.Corrupt)
		}
		closeLate(t, r, dev, be)
	})
}

// A pool's secret has one length.
func TestTiersSecret(t *testing.T) {
	cfg := small(LayoutUnset)
	cfg.Memory.BlockSize, cfg.Tiers = 4, host(t)
	cfg.Tiers.Secret = make([]byte, 16)
	be := openDevice(t)
	_, err := NewPool(be, cfg)
	require.ErrorIs(t, err, ErrConfig{Name: "Tiers.Secret", Value: "16 bytes", Why: "accepts 32 bytes"})
	require.NoError(t, be.Close())
}

// Nor below layers of several kinds, whose blocks have keys of their own.
func TestTiersThatLieBelowGroups(t *testing.T) {
	for name, cfg := range pagedKinds(t) {
		for _, secret := range [][]byte{nil, tiersSecret} {
			t.Run(name, func(t *testing.T) {
				on, l, _, _ := lying(t, true, secret)
				cfg.Tiers = on
				w := newGrouped(t, cfg, 1)
				prompt := sequence(1, 61)
				w.serveAll(prompt)
				had := w.matched(prompt, OpenOptions{}) / w.pool.cfg.EntryTokens() * w.pool.cfg.EntryTokens()
				w.evict()
				for _, lie := range lies {
					if secret != nil {
						lie = forgery
					}
					l.lie.Store(&lie)
					s, m := w.open(prompt)
					require.Equal(t, had, m.Loading)
					m = w.wait(s, prompt)
					require.Equal(t, had, m.Cached)
					require.NoError(t, w.pool.Check())
					require.NoError(t, w.run(ask{s, prompt[m.Cached:]}))
					w.drop(s)
					w.evict()
				}
				require.Equal(t, had > 0, w.stats().Tiers[0].Moves.Corrupt > 0)
				w.close()
			})
		}
	}
}
