package kvcache

import (
	"maps"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// kinds are configurations with groups that differ in what they ask of the pool.
func kinds() map[string]Config {
	window := config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9}
	sinks := config.Group{Kind: group.Window, Layers: []int{0, 1, 2, 4}, Window: 7, Sinks: 5}
	chunked := config.Group{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 12}
	int8 := func(c Config) Config {
		c.Storage.K, c.Model.Act = backend.Int8, backend.F32
		return c
	}
	residual := int8(manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 20, Sinks: 3}, config.Group{Layers: []int{1}}, config.Group{Kind: group.Window, Layers: []int{3}, Window: 6}))
	residual.Storage.Residual = 7
	back := int8(manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 24}, config.Group{Layers: []int{2}}))
	back.Storage.Residual, back.Memory.Rollback = 3, 40 // less than a chunk has, and more
	further := back
	further.Memory.StepTokens = 6
	skipped := int8(manyKinds(window, config.Group{Layers: []int{1, 3}}))
	skipped.Storage.SkipLayers = []int{0, 3}
	factors := int8(manyKinds(window, config.Group{Layers: []int{1, 3}}))
	factors.Storage.K = backend.FP8E4M3
	heads := manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9, KVHeads: 4}, config.Group{Layers: []int{1, 3}, QHeads: 8, KVHeads: 2}, config.Group{Kind: group.Window, Layers: []int{4}, Window: 3, KVHeads: 1})
	apart := manyKinds(window, config.Group{Layers: []int{1}}, config.Group{Kind: group.None, Layers: []int{3}}, config.Group{Kind: group.Chunked, Layers: []int{4}, Chunk: 10})
	apart.Memory.Layout, apart.Memory.BlockSize = Contiguous, 0
	all := map[string]Config{
		"residual":     residual,
		"going back":   back,
		"long steps":   further,
		"skipped":      skipped,
		"factors":      factors,
		"heads":        heads,
		"contiguous":   apart,
		"window":       manyKinds(window, config.Group{Layers: []int{1, 3}}),
		"sinks":        manyKinds(sinks, config.Group{Layers: []int{3}}),
		"chunked":      manyKinds(chunked, config.Group{Layers: []int{2}}),
		"state":        manyKinds(config.Group{Kind: group.State, Layers: []int{0, 2}, StateBytes: 100}, config.Group{Layers: []int{1}}),
		"a long state": manyKinds(config.Group{Kind: group.State, Layers: []int{0, 2}, StateBytes: 5000}, config.Group{Layers: []int{1}}),
		"only windows": manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 1}, Window: 6}),
		"only states":  manyKinds(config.Group{Kind: group.State, Layers: []int{0, 1}, StateBytes: 12}),
		"all":          manyKinds(config.Group{Kind: group.State, Layers: []int{0}, StateBytes: 300}, config.Group{Layers: []int{1}}, config.Group{Kind: group.Window, Layers: []int{2, 4}, Window: 8, Sinks: 1}, config.Group{Kind: group.None, Layers: []int{3}}, config.Group{Kind: group.Chunked, Layers: []int{5}, Chunk: 16}),
	}
	if testDevice().Latent {
		all["latent"] = latent(manyKinds(window, config.Group{Layers: []int{1, 3}}))
		all["latent, residual"] = latent(residual)
		all["latent, skipped"] = latent(skipped)
		all["latent, all"] = latent(all["all"])
		if testDevice().LatentDims == nil {
			all["latent, of several dims"] = manyLatents()
		}
		mixed, dims := apart, latentDims(24, 16)
		mixed.Model.Groups = slices.Clone(mixed.Model.Groups)
		g := &mixed.Model.Groups[1]
		g.Latent, g.KVHeads, g.HeadDim, g.VHeadDim, g.Scale = true, 1, dims[0], dims[1], 0.25
		all["latent, contiguous, beside others"] = mixed
	}
	return all
}

// manyLatents has groups of latents that differ.
func manyLatents() Config {
	return latent(manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9, HeadDim: 48, VHeadDim: 40}, config.Group{Layers: []int{1}},
		config.Group{Layers: []int{3}, KVHeads: 2, VHeadDim: 24}))
}

// chosenKinds are those of kinds that differ most, on devices that are emulated: what is the host's part is tested with all of
// them on the CPU, and at night here.
func chosenKinds() map[string]Config {
	all := kinds()
	if emulated(testDevice().Info) && !testsize.Full() {
		maps.DeleteFunc(all, func(name string, _ Config) bool {
			return !slices.Contains([]string{"all", "heads", "factors", "residual"}, name)
		})
	}
	return all
}

// Every layer sees what its group says, whatever steps a prompt is computed in, and what it does not see any more is given
// back.
func TestGroupsSee(t *testing.T) {
	for name, cfg := range chosenKinds() {
		t.Run(name, func(t *testing.T) {
			w := newGrouped(t, cfg, 1)
			for _, pieces := range [][]int{{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {40}, {3, 20, 1, 7, 30}} {
				s, _ := w.open(nil)
				next := uint32(1)
				for _, n := range pieces {
					var ids []uint32
					for range n {
						ids, next = append(ids, next), next+1
					}
					require.NoError(t, w.run(ask{s, ids}))
					require.NoError(t, w.pool.Check())
					for i := range s.seq.runs.In {
						b := &s.seq.runs.In[i]
						require.Equal(t, b.Part.Rule.Need(s.seq.Len()), b.Written.End(), "part %d after %d tokens", i, s.seq.Len())
					}
				}
				w.drop(s)
			}
			w.close()
		})
	}
}

// D4: blocks that left a window stay held until the step that reads them is done, and those of the last step that used
// them, wherever it runs.
func TestD4WindowsWaitForTheirSteps(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Window, Layers: []int{0}, Window: 5}, config.Group{Layers: []int{1}})
	r, dev, be := lateRig(t, cfg)
	a := r.open()
	require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 40)}))
	window := &a.runs.In[0]
	require.Equal(t, window.Part.Rule.Need(40), len(window.Kept.Blocks), "the window has slid")
	st := r.stats()
	require.Equal(t, 2*10, st.Held, "both parts' blocks of the step are on the device")
	require.Equal(t, 10-len(window.Kept.Blocks), st.Retired)
	require.NoError(t, r.s.Sync())
	st = r.stats()
	require.Equal(t, [2]int{10 + len(window.Kept.Blocks), 0}, [2]int{st.Held, st.Retired})
	require.NoError(t, a.Release())
	closeLate(t, r, dev, be)
}

// Shift and Retain move what is there. What a window or a state cannot follow is refused, and nothing has changed.
func TestGroupsDropTokens(t *testing.T) {
	window := config.Group{Kind: group.Window, Layers: []int{0}, Window: 9, Sinks: 2}
	cfg := manyKinds(window, config.Group{Layers: []int{1}})
	w := newGrouped(t, cfg, 3)
	s, _ := w.open(nil)
	require.NoError(t, w.run(ask{s, sequence(1, 50)}))
	require.ErrorIs(t, s.seq.Retain(w.s, [][]int{{1, 2, 3, 20, 45, 46, 47, 48, 49}}, RetainOptions{}), ErrGone{})
	require.ErrorIs(t, s.seq.Retain(w.s, [][]int{{0, 1, 2, 3, 20, 45, 46, 47, 48, 49}}, RetainOptions{}), ErrGone{}, "20 would be in the window")
	kept := append(sequence(0, 4), sequence(10, 4)...)
	kept = append(kept, sequence(38, 12)...)
	list := make([]int, len(kept))
	for i, id := range kept {
		list[i] = int(id)
	}
	require.NoError(t, w.pool.Check())
	require.NoError(t, s.seq.Retain(w.s, [][]int{list}, RetainOptions{}))
	require.NoError(t, w.pool.Check())
	var ids []uint32
	for _, i := range list {
		ids = append(ids, s.ids[i])
	}
	s.ids = ids
	require.NoError(t, w.run(ask{s, sequence(100, 9)}))
	w.drop(s)
	w.close()

	w = newGrouped(t, manyKinds(config.Group{Kind: group.State, Layers: []int{0}, StateBytes: 8}, config.Group{Layers: []int{1}}), 3)
	s, _ = w.open(sequence(1, 17))
	require.NoError(t, w.run(ask{s, sequence(1, 16)}))
	require.NoError(t, w.run(ask{s, sequence(17, 4)}))
	require.Equal(t, 16, s.seq.Resumable(18))
	require.ErrorIs(t, s.seq.Retain(w.s, [][]int{{0, 1}}, RetainOptions{}), backend.ErrUnsupported{})
	require.ErrorIs(t, s.seq.Truncate(18), ErrResume{Tokens: 18, At: 16, Group: group.State})
	w.drop(s)
	w.close()
}

// Steps of one shape, captured once where the device can, see what other steps see.
func TestGroupsInStepsOfOneShape(t *testing.T) {
	for name, cfg := range chosenKinds() {
		t.Run(name, func(t *testing.T) {
			w := newGrouped(t, cfg, 5)
			a, _ := w.open(nil)
			b, _ := w.open(nil)
			require.NoError(t, w.run(ask{a, sequence(1, 30)}, ask{b, sequence(50, 3)}))
			require.NoError(t, w.step.Reset())
			require.NoError(t, w.step.FixShape(3, 1))
			for i := range uint32(9) {
				require.NoError(t, w.run(ask{a, []uint32{100 + i}}, ask{b, []uint32{200 + i}}))
			}
			require.NoError(t, w.step.Reset())
			if err := w.step.FixShape(2, 2); w.pool.chunked() {
				require.ErrorIs(t, err, backend.ErrUnsupported{})
			} else {
				require.NoError(t, err)
				require.NoError(t, w.run(ask{a, []uint32{7, 8}}))
			}
			w.drop(a)
			w.drop(b)
			require.NoError(t, w.step.Close())
			w.close()
		})
	}
}

// What a layer still has of a sequence can be read, and the scores of its tokens, where they are in the sequence.
func TestGroupsAreRead(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Window, Layers: []int{0}, Window: 9, Sinks: 2}, config.Group{Layers: []int{1}}, config.Group{Kind: group.None, Layers: []int{2}})
	cfg.Attention.Scores = true
	w := newGrouped(t, cfg, 7)
	s, _ := w.open(nil)
	require.NoError(t, w.run(ask{s, sequence(1, 30)}))
	require.NoError(t, w.run(ask{s, sequence(31, 1)}))
	held := append(sequence(1, 4), sequence(21, 11)...) // sinks, and from the block of the 22nd on
	require.Equal(t, len(held), s.seq.runs.In[0].Len)
	m := &w.pool.cfg.Model
	for layer, ids := range [][]uint32{held, s.ids} {
		k, v := w.vector(w.s, make([]float32, len(ids)*m.KVHeads*m.HeadDim)), w.vector(w.s, make([]float32, len(ids)*m.KVHeads*m.VHeadDim))
		require.NoError(t, s.seq.Gather(w.s, layer, k, v))
		got := w.download(k)
		for h := range m.KVHeads {
			for i, id := range ids {
				for d := range m.HeadDim {
					require.Equal(t, element(id, layer, h, d, false), got[(h*len(ids)+i)*m.HeadDim+d])
				}
			}
		}
		w.free(k, v)
	}
	n := len(s.ids)
	scores := make([]float32, 2*m.KVHeads*n)
	require.NoError(t, s.seq.Scores(w.s, 0, scores))
	for layer := range 2 {
		for h := range m.KVHeads {
			row := scores[(layer*m.KVHeads+h)*n:][:n]
			for i, score := range row {
				gone := layer == 0 && i >= 4 && i < 20
				require.Equal(t, gone, score == 0, "layer %d, token %d: %v", layer, i, score)
			}
		}
	}
	require.ErrorIs(t, s.seq.Scores(w.s, 2, scores[:0]), backend.ErrArgument{})
	require.ErrorIs(t, s.seq.Scores(w.s, 0, append(scores, scores...)), backend.ErrArgument{}, "the third layer has none")
	require.NoError(t, s.seq.ClearScores(w.s))
	layers, err := s.seq.Layers(w.s)
	require.NoError(t, err)
	require.Equal(t, [3]int{15, 31, 0}, [3]int{layers[0].Len, layers[1].Len, layers[2].Len})
	w.drop(s)
	w.close()
}

// Every group's blocks are counted: those of its sequences, and those that can be found.
func TestGroupsAreCounted(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9}, config.Group{Kind: group.None, Layers: []int{3}}, config.Group{Layers: []int{1}}, config.Group{Kind: group.State, Layers: []int{4, 5}, StateBytes: 100})
	w := newGrouped(t, cfg, 1)
	m := w.pool.cfg.Parts()
	states := 0 // parts of the states, whose bytes need not fit in a lane
	for _, p := range m {
		if p.Rule.Kind == group.State {
			states++
		}
	}
	s, _ := w.open(sequence(1, 32))
	require.NoError(t, w.run(ask{s, sequence(1, 8)}))
	require.NoError(t, w.run(ask{s, sequence(9, 23)}))
	require.NoError(t, w.run(ask{s, sequence(32, 1)}))
	// The window's last two blocks, and of its three before the one that is read after 28 tokens, where the prompt ends. No
	// step ended there, so no state was kept.
	st := w.idle()
	require.Equal(t, []GroupStats{{0, group.Window, 2 * 2, 2 * 3}, {2, group.Full, 8, 8}, {3, group.State, states, 0}}, st.Groups)
	require.Equal(t, st.Logical, st.Groups[0].Logical+st.Groups[1].Logical+st.Groups[2].Logical)
	w.drop(s)
	st = w.idle()
	found := 0
	for _, g := range st.Groups {
		require.Zero(t, g.Logical)
		require.Positive(t, g.Findable)
		found += g.Findable
	}
	require.Equal(t, st.Cached, found)
	w.close()

	r := reuseRig(t, 4)
	require.Nil(t, r.idle().Groups)
	r.close()
}

// Whoever watches a pool knows what every group has: what is stored of a group is removed, by itself or with its entry, and
// at any moment it is what the prefix tree has.
func TestGroupsAreTold(t *testing.T) {
	for name, cfg := range chosenKinds() {
		if cfg.Memory.Layout == Contiguous {
			continue
		}
		t.Run(name, func(t *testing.T) {
			cfg.Memory.Blocks, cfg.Memory.RetainEvery = 70, 2
			w := newGrouped(t, cfg, 11)
			sub, have, err := w.pool.Watch(1 << 16)
			require.NoError(t, err)
			require.Empty(t, have)
			type place struct {
				key   prefix.Key
				group int
			}
			known := map[place]bool{}
			apply := func(known map[place]bool, e prefix.Event) {
				for _, k := range e.Keys {
					if e.Kind == prefix.Stored {
						require.False(t, known[place{k, e.Group}], "stored twice")
						require.True(t, e.Group == 0 || known[place{k, 0}], "an entry is told before its groups")
						known[place{k, e.Group}] = true
						continue
					}
					require.True(t, known[place{k, e.Group}], "removed, but never stored")
					delete(known, place{k, e.Group})
					for g := 1; e.Group == 0 && g <= len(cfg.Model.Groups); g++ {
						delete(known, place{k, g})
					}
				}
			}
			groups := map[int]bool{}
			for range 60 {
				w.act()
				for len(sub.C) > 0 {
					e := <-sub.C
					apply(known, e)
					groups[e.Group] = true
				}
				late, now, err := w.pool.Watch(1)
				require.NoError(t, err)
				w.pool.Unwatch(late)
				fresh := map[place]bool{}
				for _, e := range now {
					apply(fresh, e)
				}
				require.Equal(t, fresh, known)
			}
			told := 1
			for _, g := range cfg.Model.Groups {
				if g.Kind != group.Full && g.Kind != group.None {
					told++
				}
			}
			require.Len(t, groups, told)
			w.pool.Unwatch(sub)
			for len(w.seqs) > 0 {
				w.drop(w.seqs[0])
			}
			w.close()
		})
	}
}
