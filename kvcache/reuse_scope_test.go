package kvcache

import (
	"slices"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

func TestC1To4ScopesDoNotMeet(t *testing.T) {
	r := reuseRig(t, 40)
	adapter := func(id, version string) prefix.Scope {
		return prefix.Scope{Adapter: &prefix.Adapter{ID: id, Version: version}}
	}
	scopes := []prefix.Scope{
		{}, {Salt: []byte{}}, {Salt: []byte("0")}, {Salt: []byte{0}}, {Salt: []byte("x")}, // C1, C3
		adapter("x", ""), adapter("", "x"), adapter("", ""), adapter("0", ""), adapter("x", "2"), // C2, C4
		{Salt: []byte("x"), Adapter: &prefix.Adapter{ID: "x"}},
	}
	keys := map[prefix.Key]bool{}
	for _, s := range scopes {
		keys[r.pool.model.Root(s).Key] = true
		o := OpenOptions{Scope: s}
		require.Zero(t, r.matched(sequence(1, 7), o), "%+v", s)
		r.cache(sequence(1, 4), o)
		a, m := r.read(sequence(1, 3), o) // a part of a block obeys its scope as well
		require.Equal(t, 2, m.Cached)
		r.drop(a)
		require.NoError(t, r.pool.Clear(false))
	}
	require.Len(t, keys, len(scopes))
	r.close()
}

func TestC5ImagesAreInTheKeysOfTheirBlocks(t *testing.T) {
	r := reuseRig(t, 40)
	prompt := sequence(1, 17)
	image := func(hash string) OpenOptions {
		return OpenOptions{Items: []prefix.Item{{Begin: 5, End: 7, Hash: []byte(hash)}}}
	}
	r.cache(prompt, image("cat"))
	require.Equal(t, 16, r.matched(prompt, image("cat")))
	require.Equal(t, 4, r.matched(prompt, image("dog")), "blocks before the image are shared")
	require.Equal(t, 4, r.matched(prompt, OpenOptions{}))
	moved := image("cat")
	moved.Items[0].Begin = 6
	require.Equal(t, 4, r.matched(prompt, moved))
	// Where the image is cut off, what takes its place is not published under its key.
	a, _ := r.read(prompt, image("cat"))
	require.NoError(t, a.seq.Truncate(5))
	a.tokens, a.want, a.cut = a.tokens[:5], a.want[:5], 5
	require.NoError(t, r.run(r.s, part[buffer]{a, prompt[5:]}))
	b, m := r.read(prompt, image("cat"))
	require.Equal(t, 16, m.Cached)
	r.drop(a, b)
	// The same by a Shift of the end.
	c, _ := r.read(prompt, image("cat"))
	require.NoError(t, c.seq.Shift(r.s, 5, 16))
	c.tokens, c.want, c.cut = c.tokens[:5], c.want[:5], 5
	require.NoError(t, r.run(r.s, part[buffer]{c, prompt[5:]}))
	r.drop(c)
	r.close()
}

func TestC7FingerprintOfThePool(t *testing.T) {
	base := small(Paged)
	changes := map[string]func(*Config){
		"nothing":    func(*Config) {},
		"rope theta": func(c *Config) { c.Model.RoPE = &backend.RoPE{Theta: 5e5} },
		"no rope":    func(c *Config) { c.Model.RoPE = nil },
		"k type":     func(c *Config) { c.Storage.K, c.Storage.V, c.Model.Act = backend.F16, backend.F32, backend.F32 },
		"v type":     func(c *Config) { c.Storage.V, c.Model.Act = backend.F16, backend.F32 },
		"activation": func(c *Config) { c.Model.Act = backend.F16 },
		"block size": func(c *Config) { c.Memory.BlockSize = 8 },
		"layers":     func(c *Config) { c.Model.Layers = 3 },
		"kv heads":   func(c *Config) { c.Model.KVHeads = 1 },
		"heads":      func(c *Config) { c.Model.QHeads = 8 },
		"head dim":   func(c *Config) { c.Model.HeadDim *= 2 },
		"v head dim": func(c *Config) { c.Model.VHeadDim *= 2 },
		"model":      func(c *Config) { c.Model.Digest = []byte("m") },
		"scale":      func(c *Config) { c.Model.Scale = 3 },
		"window":     func(c *Config) { c.Model.Masks = []Mask{{Window: 8}} },
		"alibi":      func(c *Config) { c.Model.Masks = []Mask{{ALiBi: []float32{0, 0, 1, 0}}} },
		"no sinks":   func(c *Config) { c.Model.Masks = []Mask{{SinkLogits: []float32{1, 2, 3, 4}}} },
	}
	seen := map[prefix.Key]string{}
	for name, change := range changes {
		cfg := base
		change(&cfg)
		cfg, err := cfg.Resolve()
		require.NoError(t, err)
		model, err := cfg.Fingerprint()
		require.NoError(t, err)
		key := model.Root(prefix.Scope{}).Key
		require.Empty(t, seen[key], name)
		seen[key] = name
		again, err := cfg.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, key, again.Root(prefix.Scope{}).Key, "the same in every process")
	}
}

// What a sequence computes after a Shift is not what its tokens alone would say: exact
// readers do not get it, nor is it swapped for what another one has of equal tokens.
func TestShiftedContentIsMarked(t *testing.T) {
	r := reuseRig(t, 40)
	head := sequence(1, 4)
	shifted := func(dropped uint32) *reader[buffer] {
		a, _ := r.serve(append(append(slices.Clone(head), dropped, 0, 0, 0), sequence(10, 8)...), OpenOptions{})
		require.NoError(t, a.seq.Shift(r.s, 4, 8))
		kept := slices.Clone(a.want[:4])
		for _, tk := range a.want[8:] {
			kept = append(kept, token{tk.id, -4})
		}
		a.tokens, a.want = append(slices.Clone(head), sequence(10, 8)...), kept
		require.NoError(t, r.run(r.s, part[buffer]{a, sequence(20, 4)}))
		return a
	}
	a, b := shifted(1), shifted(2)
	require.NotEqual(t, a.want, b.want)
	tolerant := OpenOptions{Accept: prefix.Truncated}
	require.Equal(t, 4, r.matched(a.tokens, OpenOptions{}))
	require.Equal(t, 15, r.matched(a.tokens, tolerant))
	// Who accepts it passes the mark on, also of a block of which he has a part only.
	prompt := append(slices.Clone(head), 10, 11, 50, 51, 52, 53, 54)
	c, m, err := r.pool.Open(prompt, tolerant)
	require.NoError(t, err)
	require.Equal(t, 6, m.Cached)
	require.NoError(t, r.feed(feed[buffer]{c, prompt[6:]}))
	require.Equal(t, 4, r.matched(prompt, OpenOptions{}))
	require.Equal(t, 8, r.matched(prompt, tolerant))
	require.NoError(t, c.Release())
	r.drop(a, b)
	r.close()
}

// Neither hits nor numbers tell a tenant of another one's equal tokens.
func TestTenantsDoNotSeeEachOther(t *testing.T) {
	r := reuseRig(t, 40)
	one, two := prefix.Scope{Salt: []byte("one")}, prefix.Scope{Salt: []byte("two")}
	story := func() (seen []any) {
		o := OpenOptions{Scope: two}
		m, err := r.pool.Match(sequence(1, 9), o)
		require.NoError(t, err)
		early, err := r.pool.Pin(sequence(1, 9), time.Hour, o)
		require.NoError(t, err)
		require.Equal(t, prefix.NeverSeen, early.Match.MissReason())
		require.NoError(t, r.pool.Unpin(early))
		a, opened := r.serve(sequence(1, 9), o)
		l, err := r.pool.Pin(sequence(1, 30), time.Hour, o)
		require.NoError(t, err)
		adapted := o
		adapted.Adapter = &prefix.Adapter{ID: "a"}
		other, err := r.pool.Match(sequence(1, 9), adapted)
		require.NoError(t, err)
		st, err := r.pool.SaltStats(two)
		require.NoError(t, err)
		seen = append(seen, m, opened, l.Match.Tokens, l.Match.MissReason(), other, st)
		require.NoError(t, r.pool.Unpin(l))
		r.drop(a)
		return seen
	}
	alone := story()
	require.Equal(t, prefix.NeverSeen, alone[0].(Match).MissReason)
	require.NoError(t, r.pool.Clear(false))
	r.cache(sequence(1, 30), OpenOptions{Scope: one})
	require.Equal(t, alone, story())
	require.Positive(t, r.idle().Prefix.Misses[prefix.OtherSalt], "who runs the pool sees the cause")
	r.close()
}
