package kvcache

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/kind"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/stretchr/testify/require"
)

// strides is a kind of layers that is in this file alone: a window that gives tokens up in whole strides of Chunk tokens. Its mask is
// that of a window, so that it keeps more than queries see.
type strides struct{ kind.Base }

var fifthKind = func() group.Kind {
	kind.Table = append(kind.Table, kind.Row{Keeps: kind.Last, Kind: strides{}})
	return group.Kind(len(kind.Table) - 1)
}()

func (strides) Name() string { return "strides" }

func (strides) Fields() []kind.Field {
	return []kind.Field{{Name: "Window", Least: 1}, {Name: "Sinks"}, {Name: "Chunk", Least: 1}}
}

func (strides) Sees(n kind.Numbers, position int) (sinks, first int) {
	first = max(position-(n.Window-1), 0)
	return n.Sinks, first - first%n.Chunk
}

func (strides) Most(n kind.Numbers) int { return n.Window - 1 + n.Chunk - 1 }

func (strides) Mask(n kind.Numbers, _ bool) kind.Mask {
	return kind.Mask{Window: n.Window, Sinks: n.Sinks}
}

// fifthKinds are configurations with it.
func fifthKinds() map[string]Config {
	of := func(window, sinks, stride int, layers ...int) config.Group {
		return config.Group{Kind: fifthKind, Layers: layers, Window: window, Sinks: sinks, Chunk: stride}
	}
	int8 := func(c Config) Config {
		c.Storage.K, c.Model.Act = backend.Int8, backend.F32
		return c
	}
	residual := int8(manyKinds(of(20, 3, 8, 0, 2), config.Group{Layers: []int{1}}, of(6, 0, 5, 3)))
	residual.Storage.Residual = 7
	apart := manyKinds(of(9, 2, 8, 0, 2), config.Group{Layers: []int{1}})
	apart.Memory.Layout, apart.Memory.BlockSize = Contiguous, 0
	return map[string]Config{
		"alone":      manyKinds(of(6, 0, 7, 0, 1)),
		"one":        manyKinds(of(9, 0, 1, 0, 2), config.Group{Layers: []int{1}}), // a window
		"blocks":     manyKinds(of(9, 0, 8, 0, 2), config.Group{Layers: []int{1, 3}}),
		"sinks":      manyKinds(of(7, 5, 13, 0, 1, 2, 4), config.Group{Layers: []int{3}}),
		"residual":   residual,
		"contiguous": apart,
		"all": manyKinds(config.Group{Kind: group.State, Layers: []int{0}, StateBytes: 300}, config.Group{Layers: []int{1}}, of(8, 1, 12, 2, 4),
			config.Group{Kind: group.None, Layers: []int{3}}, config.Group{Kind: group.Chunked, Layers: []int{5}, Chunk: 16}, config.Group{Kind: group.Window, Window: 9, Layers: []int{6}}),
	}
}

// pagedFifthKinds are those above a tier.
func pagedFifthKinds(t testT) map[string]Config {
	all := fifthKinds()
	delete(all, "contiguous")
	for name, cfg := range all {
		cfg.Tiers = host(t)
		all[name] = cfg
	}
	return all
}

// withFifthKind is a pool with the kind. The model, which asks the pool's configuration what queries see, is told that it is a window.
func withFifthKind(t testT, cfg Config, seed uint64) *grouped {
	w := newGrouped(t, cfg, seed)
	groups := slices.Clone(w.pool.cfg.Model.Groups)
	for i := range groups {
		if g := &groups[i]; g.Kind == fifthKind {
			g.Kind, g.Chunk = group.Window, 0
		}
	}
	w.pool.cfg.Model.Groups = groups
	return w
}

// varied is cfg with other retention and other drafts, of a pool too small for its sequences.
func varied(cfg Config, seed uint64) Config {
	cfg.Memory.Rollback = max(cfg.Memory.Rollback, []int{-1, 3, 0}[seed])
	cfg.Memory.RetainEvery = []int{1, 2, 0}[seed]
	if cfg.Memory.Layout == Paged {
		cfg.Memory.Blocks = 70
	}
	return cfg
}

// A configuration takes it by its name, with the numbers that it takes.
func TestFifthKindIsConfigured(t *testing.T) {
	cfg := fifthKinds()["sinks"]
	text, err := json.Marshal(cfg.Model.Groups)
	require.NoError(t, err)
	require.Contains(t, string(text), `"kind":"strides"`)
	var again []config.Group
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, cfg.Model.Groups, again)
	for field, edit := range map[string]func(g *config.Group){
		"Window": func(g *config.Group) { g.Window = 0 }, "Chunk": func(g *config.Group) { g.Chunk = 0 }, "StateBytes": func(g *config.Group) { g.StateBytes = 1 },
	} {
		cfg := fifthKinds()["sinks"]
		edit(&cfg.Model.Groups[0])
		_, err := cfg.Resolve()
		var e backend.ErrConfig
		require.ErrorAs(t, err, &e)
		require.Equal(t, "Model.Groups[0]."+field, e.Name)
	}
	_, err = cfg.Resolve()
	require.NoError(t, err)
}

// It keeps whole strides, and gives back the rest.
func TestFifthKindGivesBack(t *testing.T) {
	w := withFifthKind(t, fifthKinds()["sinks"], 1) // window 7, sinks 5, stride 13, blocks of 4
	s, _ := w.open(nil)
	for n := range 120 {
		require.NoError(t, w.run(ask{s, sequence(n+1, 1)}))
		b := &s.seq.runs.In[0]
		first := max(n+1-6, 0) / 13 * 13 // what the next query keeps
		require.Equal(t, max(first/4-2, 0), b.Gone, "after %d tokens", n+1)
		require.Equal(t, (n+4)/4-b.Gone, len(b.Kept.Blocks))
	}
	w.drop(s)
	w.close()
}

// As TestGroupsModel.
func TestFifthKindModel(t *testing.T) {
	n := cmp.Or(*operations, 100)
	if *operations == 0 && testDevice().HeadDims != nil {
		n = 10
	}
	for name, cfg := range fifthKinds() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				groupsHistory(withFifthKind(t, varied(cfg, seed), seed), n)
			}
		})
	}
}

// What was set aside for a sequence is enough for all that it keeps on its way, when others have taken the rest.
func TestFifthKindKeepsPromises(t *testing.T) {
	for _, name := range []string{"sinks", "residual", "all"} {
		cfg := fifthKinds()[name]
		cfg.Memory.Blocks = 200
		w := withFifthKind(t, cfg, 1)
		s, _ := w.open(nil)
		require.NoError(t, w.pool.Reserve(Reservation[buffer]{s.seq, 150}))
		for err := error(nil); err == nil; {
			other, _ := w.open(nil)
			err = w.run(ask{other, sequence(1000+100*len(w.seqs), 9)})
		}
		for n := range 150 {
			require.NoError(t, w.run(ask{s, sequence(n+1, 1)}), "%s, after %d tokens", name, n)
		}
		for len(w.seqs) > 0 {
			w.drop(w.seqs[0])
		}
		w.close()
	}
}

// As TestGroupsInStepsOfOneShape.
func TestFifthKindInStepsOfOneShape(t *testing.T) {
	for name, cfg := range fifthKinds() {
		t.Run(name, func(t *testing.T) {
			w := withFifthKind(t, cfg, 5)
			a, _ := w.open(nil)
			b, _ := w.open(nil)
			require.NoError(t, w.run(ask{a, sequence(1, 30)}, ask{b, sequence(50, 3)}))
			require.NoError(t, w.step.Reset())
			require.NoError(t, w.step.FixShape(3, 1))
			for i := range uint32(60) {
				require.NoError(t, w.run(ask{a, []uint32{100 + i}}, ask{b, []uint32{200 + i}}))
			}
			w.drop(a)
			w.drop(b)
			require.NoError(t, w.step.Close())
			w.close()
		})
	}
}

// As TestGroupsComeBack and TestGroupsAboveTiersModel.
func TestFifthKindAboveTiers(t *testing.T) {
	n, took := cmp.Or(*operations, 50), 0
	if *operations == 0 && testDevice().HeadDims != nil {
		n = 5
	}
	for name, cfg := range pagedFifthKinds(t) {
		t.Run(name, func(t *testing.T) {
			w := withFifthKind(t, cfg, 1)
			prompt := sequence(1, 61)
			w.serveAll(prompt)
			had := w.matched(prompt, OpenOptions{})
			had -= had % w.pool.cfg.EntryTokens()
			w.evict()
			s, m := w.open(prompt)
			require.Equal(t, had, m.Loading)
			require.Equal(t, had, w.wait(s, prompt).Cached)
			require.NoError(t, w.run(ask{s, prompt[had:]}))
			require.NoError(t, w.run(ask{s, sequence(300, 30)}))
			w.drop(s)
			w.close()
		})
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				cfg := varied(cfg, seed)
				near, err := memory.Open(memory.Options{Name: "near", Bytes: 1 << (15 + seed)})
				require.NoError(t, err)
				moods := &moody{Tier: near}
				cfg.Tiers.More = append([]tier.Tier{moods}, cfg.Tiers.More...)
				w := withFifthKind(t, cfg, seed)
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
			})
		}
	}
	require.Positive(t, took)
}

// As TestSavedKinds: sequences go on in pools with blocks of other sizes and in the other layout, and come back.
func TestFifthKindSaved(t *testing.T) {
	loaded := map[string]int{}
	for name, cfg := range fifthKinds() {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{5, 9, 61} {
				w := withFifthKind(t, cfg, 1)
				s, _ := w.open(nil)
				for len(s.ids) < n {
					require.NoError(t, w.run(ask{s, sequence(1+len(s.ids), min(n-len(s.ids), 11))}))
				}
				stream := w.save(s.seq)
				for other, memory := range map[string]Memory{
					"same":       cfg.Memory,
					"larger":     {Layout: Paged, BlockSize: 8, Capacity: 200, MaxSeqs: 4, Rollback: -1},
					"smaller":    {Layout: Paged, BlockSize: 2, Capacity: 200, MaxSeqs: 4, Rollback: -1},
					"contiguous": {Layout: Contiguous, Capacity: 200, MaxSeqs: 4},
				} {
					cfg := signed(cfg)
					cfg.Memory = memory
					if _, err := cfg.Resolve(); err != nil || testDevice().BlockSizes != nil && other != "same" { // states, or a chunk that is no whole number of blocks
						continue
					}
					o := withFifthKind(t, cfg, 2)
					got, err := o.pool.Load(bytes.NewReader(stream), snapshot.Options{})
					if err != nil { // a block would have tokens that were given up
						require.NotEqual(t, "same", other)
						require.ErrorIs(t, err, snapshot.ErrMismatch{})
						require.NoError(t, o.pool.Check())
						o.close()
						continue
					}
					loaded[other]++
					a := &told{seq: got.Sequences[0], ids: slices.Clone(s.ids)}
					o.seqs = append(o.seqs, a)
					if other == "same" {
						require.True(t, bytes.Equal(stream, o.save(a.seq)))
					}
					for i := range 3 {
						require.NoError(t, o.run(ask{a, sequence(400+10*i, 7)}))
						require.NoError(t, o.pool.Check())
					}
					o.drop(a)
					o.close()
				}
				w.drop(s)
				w.close()
			}
		})
	}
	if testDevice().BlockSizes == nil {
		require.Len(t, loaded, 4)
	}
	t.Log(loaded)
}
