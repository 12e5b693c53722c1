package kvcache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// different is what pools may differ in, one thing each.
func different() map[string]func(*Config) {
	dims := [2]int{8, 10}
	if all := testDevice().HeadDims; len(all) > 1 {
		dims = all[1]
	} else if len(all) == 1 {
		dims = all[0]
	}
	out := map[string]func(*Config){
		"nothing":    func(*Config) {},
		"digest":     func(c *Config) { c.Model.Digest = []byte("weightt") },
		"no digest":  func(c *Config) { c.Model.Digest = nil },
		"layers":     func(c *Config) { c.Model.Layers = 3 },
		"heads":      func(c *Config) { c.Model.QHeads = 2 },
		"KV heads":   func(c *Config) { c.Model.KVHeads = 4 },
		"scale":      func(c *Config) { c.Model.Scale = 3 },
		"window":     func(c *Config) { c.Model.Masks = []Mask{{Window: 8}} },
		"block size": func(c *Config) { c.Memory.BlockSize = 8 },
		"no rope":    func(c *Config) { c.Model.RoPE = nil },
		"theta":      func(c *Config) { c.Model.RoPE = &backend.RoPE{Theta: 5e5} },
		"pairing":    func(c *Config) { c.Model.RoPE = &backend.RoPE{Pairing: backend.Interleaved} },
	}
	if base := small(LayoutUnset).Model; dims != [2]int{base.HeadDim, base.VHeadDim} {
		out["head dim"] = func(c *Config) { c.Model.HeadDim, c.Model.VHeadDim = dims[0], dims[1] }
	}
	for _, f := range testDevice().Formats {
		if f.Act == backend.F32 && f.K == f.V && f.K != backend.F32 && f.K.Coding().Scope != backend.ByChannel {
			out["of "+f.K.String()] = func(c *Config) { c.Model.Act, c.Storage.K = f.Act, f.K }
		}
	}
	return out
}

// Pools that differ in one thing find nothing of each other in a tier that all of them use, and equal ones find everything (case 14).
func TestTiersKeepPoolsApart(t *testing.T) {
	on, prompt, blocks := host(t), sequence(1, 23), 0
	scopes := []prefix.Scope{{}, {Salt: []byte("a")}}
	pools := different()
	require.Greater(t, len(pools), 12)
	for name, edit := range pools {
		r := tiered(t, 12, on, edit)
		for _, s := range scopes {
			m, err := r.pool.Match(prompt, OpenOptions{Scope: s})
			require.NoError(t, err)
			require.Zero(t, m.Cached+m.Loading, "%s %s", name, s.Salt)
			r.cache(prompt, OpenOptions{Scope: s})
			blocks += len(prompt) / r.pool.Config().Memory.BlockSize
		}
		r.close()
	}
	require.Equal(t, int64(blocks), on.More[0].Stats().Blocks)
	for name, edit := range pools {
		r := tiered(t, 12, on, edit)
		for _, s := range scopes {
			x, m := r.read(prompt, OpenOptions{Scope: s})
			size := r.pool.Config().Memory.BlockSize
			require.Equal(t, [2]int{0, 22 / size * size}, [2]int{m.Cached, m.Loading}, "%s %s", name, s.Salt)
			require.Equal(t, []int{m.Loading}, x.wait(r).Tiers)
			r.drop(x)
		}
		r.close()
	}
	require.Equal(t, int64(blocks), on.More[0].Stats().Blocks)
	require.NoError(t, on.More[0].Close())
}

// Neither do pools whose groups differ in one thing.
func TestTiersKeepGroupsApart(t *testing.T) {
	rest := config.Group{Layers: []int{1, 3}}
	longer, sinks := ruleWindow, ruleWindow
	longer.Window++
	sinks.Sinks = 1
	state := config.Group{Kind: group.State, Layers: []int{0, 2}, StateBytes: 300}
	larger := state
	larger.StateBytes += 4
	on, prompt := host(t), sequence(1, 42)
	lists := [][]config.Group{
		{ruleWindow, rest}, {longer, rest}, {sinks, rest}, {{Kind: group.Chunked, Layers: []int{0, 2}, Chunk: 12}, rest},
		{{Kind: group.None, Layers: []int{0, 2}}, rest}, {state, rest}, {larger, rest},
		{{Kind: ruleWindow.Kind, Layers: []int{1, 3}, Window: ruleWindow.Window}, {Layers: []int{0, 2}}},
	}
	had := make([]int, len(lists))
	for again := range 2 {
		for i, groups := range lists {
			cfg := manyKinds(groups...)
			cfg.Memory.RetainEvery, cfg.Tiers = 1, on
			w := newGrouped(t, cfg, 1)
			m, err := w.pool.Match(prompt, OpenOptions{})
			require.NoError(t, err)
			require.Zero(t, m.Cached)
			require.Equal(t, had[i], m.Loading, "%+v", groups)
			if again > 0 {
				s, _ := w.open(prompt)
				require.Equal(t, had[i], w.wait(s, prompt).Cached)
				require.NoError(t, w.run(ask{s, prompt[had[i]:]}))
				w.drop(s)
			} else {
				w.serveAll(prompt)
				had[i] = w.matched(prompt, OpenOptions{}) / 4 * 4 // full blocks
				require.Positive(t, had[i])
			}
			w.close()
		}
	}
	require.NoError(t, on.More[0].Close())
}

// inTiers is how many blocks the rig's tiers have once all is there.
func (r *rig[B]) inTiers() (n int64) {
	r.t.Helper()
	r.flush()
	for _, t := range r.stats().Tiers {
		n += t.Stats.Blocks
	}
	return n
}

// What was computed with tokens that are not there any more stays on the device, whoever goes on behind it. Who asks a tier for its
// tokens gets what a plain run gave.
func TestShiftedContentStaysUp(t *testing.T) {
	r := tiered(t, 30, host(t))
	head, tail := sequence(1, 4), sequence(10, 17)
	prompt := slices.Concat(head, []uint32{90, 91, 92, 93}, tail[:8])
	text := slices.Concat(head, tail)
	tolerant := OpenOptions{Accept: prefix.Truncated}
	shifted := func(stored int64) {
		t.Helper()
		a, _ := r.serve(prompt, OpenOptions{})
		before := r.inTiers()
		require.Equal(t, stored, before, "the prompt is exact")
		require.NoError(t, a.seq.Shift(r.s, 4, 8))
		require.NoError(t, r.feed(feed[buffer]{a.seq, sequence(200, 9)}))
		require.Equal(t, 4, r.matched(text, OpenOptions{}))
		require.Equal(t, 12, r.matched(text, tolerant), "there it is")
		other := append(slices.Clone(text[:12]), sequence(300, 9)...)
		b, m, err := r.pool.Open(other, tolerant)
		require.NoError(t, err)
		require.Equal(t, 12, m.Cached)
		require.NoError(t, r.feed(feed[buffer]{b, other[12:]}))
		require.NoError(t, a.seq.Release())
		require.NoError(t, b.Release())
		require.Equal(t, before, r.inTiers())
	}
	shifted(4)
	r.forget()
	for _, o := range []OpenOptions{{}, tolerant} {
		m, err := r.pool.Match(text, o)
		require.NoError(t, err)
		require.Equal(t, 4, m.Loading)
	}
	r.cache(text, OpenOptions{}) // as it is without a shift
	require.Equal(t, int64(8), r.inTiers())
	r.forget()
	shifted(8)
	m, err := r.pool.Match(text, tolerant)
	require.NoError(t, err)
	require.Equal(t, [2]int{12, 0}, [2]int{m.Cached, m.Loading}, "what is exact does not follow what is not")
	x, m := r.read(text, OpenOptions{})
	require.Equal(t, [2]int{4, 16}, [2]int{m.Cached, m.Loading})
	x.wait(r)
	r.drop(x)
	r.close()
}

// Nor does anything go down of a sequence that gave up tokens in the middle.
func TestEvictedContentStaysUp(t *testing.T) {
	for _, o := range []RetainOptions{{}, {Reposition: true}} {
		r := tiered(t, 40, host(t))
		prompt := sequence(100, 25)
		a, _ := r.serve(prompt, OpenOptions{})
		require.Equal(t, int64(6), r.inTiers())
		list := append(sequenceOf(6), 16, 17, 18, 19, 20, 21, 22, 23, 24)
		require.NoError(t, a.seq.Retain(r.s, [][]int{list}, o))
		require.NoError(t, r.feed(feed[buffer]{a.seq, sequence(500, 9)}))
		own := append(chosen(prompt, list), sequence(500, 9)...)
		require.NoError(t, a.seq.Release())
		require.Equal(t, int64(6), r.inTiers())
		r.forget()
		for text, want := range map[*[]uint32]int{&prompt: 24, &own: 4} {
			for _, accept := range []prefix.Fidelity{prefix.Exact, prefix.Evicted} {
				m, err := r.pool.Match(*text, OpenOptions{Accept: accept})
				require.NoError(t, err)
				require.Equal(t, want, m.Loading, fmt.Sprint(*text))
			}
		}
		x, _ := r.read(prompt, OpenOptions{})
		require.Equal(t, 24, x.wait(r).Cached)
		r.drop(x)
		r.close()
	}
}

// What follows a beginning of which only the few bits are there is of another kind, also where the beginning came from a tier.
func TestRequantizedContentStaysUp(t *testing.T) {
	r := tiered(t, 36, host(t), func(c *Config) {
		c.Storage = Storage{K: backend.Int8, V: backend.Int8, Residual: 4}
		c.Model.Act = backend.F32
	})
	prompt := sequence(1, 23)
	r.cache(prompt, OpenOptions{})
	stored, tolerant := r.inTiers(), OpenOptions{Accept: prefix.Requantized}
	require.Positive(t, stored)
	sealed := r.matched(prompt, OpenOptions{})
	require.Positive(t, sealed)
	turn := append(slices.Clone(prompt[:sealed]), sequence(500, 20)...)
	for _, from := range []string{"device", "tier"} {
		if from == "tier" { // four sequences take all blocks: of each of them the last ones are in the window alone
			var all [4]*reader[buffer]
			for i := range all {
				all[i], _ = r.read(nil, OpenOptions{NoPublish: true})
				require.NoError(t, r.run(r.s, part[buffer]{all[i], sequence(10_000, 40)}))
			}
			for _, x := range all {
				require.NoError(t, x.seq.Release())
			}
			require.Zero(t, r.idle().Cached)
		}
		x, m := r.read(turn, OpenOptions{})
		if from == "tier" {
			require.Equal(t, sealed, m.Loading)
			m = x.wait(r)
		}
		require.Equal(t, sealed, m.Cached, from)
		require.NoError(t, r.prefill(r.s, x))
		require.NoError(t, x.seq.Release())
		require.Equal(t, stored, r.inTiers(), from)
		require.Equal(t, sealed, r.matched(turn, OpenOptions{}), from)
		require.Greater(t, r.matched(turn, tolerant), sealed, from)
		m, err := r.pool.Match(turn, OpenOptions{})
		require.NoError(t, err)
		require.Zero(t, m.Loading, from)
	}
	r.close()
}
