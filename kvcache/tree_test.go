package kvcache

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// anyTree is the parents of n nodes, none more than so many deep, and a path of it.
func anyTree(rng *rand.Rand, n, deep int) (parents, path []int) {
	var depth []int
	for i := range n {
		parent := rng.IntN(i+1) - 1
		for parent >= 0 && depth[parent] >= deep {
			parent = parents[parent]
		}
		at := 1
		if parent >= 0 {
			at += depth[parent]
		}
		parents, depth = append(parents, parent), append(depth, at)
	}
	for node := rng.IntN(n+1) - 1; node >= 0; node = parents[node] {
		path = append([]int{node}, path...)
	}
	return parents, path
}

// treeKinds are pools that take trees.
func treeKinds() map[string]Config {
	plain := func(change func(c *Config)) Config {
		c := small(Paged)
		c.Memory.Capacity = 120
		change(&c)
		return c
	}
	quantized := func(k backend.DType) Config {
		return plain(func(c *Config) { c.Storage.K, c.Model.Act = k, backend.F32 })
	}
	window := manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 9, Sinks: 3}, config.Group{Layers: []int{1, 3}})
	window.Model.RoPE = &backend.RoPE{}
	return map[string]Config{
		"paged": plain(func(*Config) {}), "one place": plain(func(c *Config) { c.Memory.Layout, c.Memory.BlockSize = Contiguous, 0 }),
		"int8": quantized(backend.Int8), "windows": window, "scores": plain(func(c *Config) { c.Attention.Scores = true }),
		"masks": plain(func(c *Config) { c.Model.Masks = []Mask{{Window: 8, SinkTokens: 6}, {}} }),
	}
}

// E6: what is accepted of trees is, bit by bit, what a plain run of the same tokens stores, rotated to their positions, in as many
// blocks.
func TestAcceptedTreesAsPlainTokens(t *testing.T) {
	for name, cfg := range treeKinds() {
		t.Run(name, func(t *testing.T) {
			w := newMixed(t, cfg)
			rng := rand.New(rand.NewPCG(3, 4))
			s := w.fresh()
			alone, _, err := w.pool.Open(nil, OpenOptions{NoReuse: true, NoPublish: true})
			require.NoError(t, err)
			plain := &told{seq: alone}
			step := func(add func() error, ids []uint32, end func() error) {
				require.NoError(t, w.step.Reset())
				require.NoError(t, add())
				require.NoError(t, w.step.Plan(w.s))
				for l := range w.pool.cfg.Model.Layers {
					st, _ := w.pool.of(l)
					m := &st.Config.Model
					q := w.vector(w.s, rows(ids, l, m.QHeads, m.HeadDim, false))
					k, v := w.vector(w.s, rows(ids, l, m.KVHeads, m.HeadDim, false)), w.vector(w.s, rows(ids, l, m.KVHeads, m.VHeadDim, true))
					require.NoError(t, w.step.Append(l, rotated(q, k, v)))
					w.free(q, k, v)
				}
				require.NoError(t, end())
			}
			var all []uint32
			next := uint32(1)
			for len(all) < 90 {
				n := 1 + rng.IntN(12)
				ids := sequence(int(next), n)
				next += uint32(n)
				if len(all) == 0 || rng.IntN(4) == 0 {
					step(func() error { return w.step.Add(s.seq, ids) }, ids, w.step.Commit)
					all = append(all, ids...)
				} else {
					parents, path := anyTree(rng, n, 8)
					if rng.IntN(3) == 0 { // with tokens before it
						before := sequence(int(next), 3)
						next += 3
						step(func() error {
							return errors.Join(w.step.Add(s.seq, before), w.step.AddTree(s.seq, ids, parents))
						}, append(append([]uint32(nil), before...), ids...), func() error { return errors.Join(w.step.Accept(s.seq, path), w.step.Commit()) })
						all = append(all, before...)
					} else {
						step(func() error { return w.step.AddTree(s.seq, ids, parents) }, ids, func() error { return errors.Join(w.step.Accept(s.seq, path), w.step.Commit()) })
					}
					for _, node := range path {
						all = append(all, ids[node])
					}
				}
				require.Equal(t, len(all), s.seq.Len())
				require.Equal(t, len(all), s.seq.NextPosition())
			}
			step(func() error { return w.step.Add(plain.seq, all) }, all, w.step.Commit)
			for i := range s.seq.runs.In {
				require.Len(t, s.seq.runs.In[i].Kept.Blocks, len(plain.seq.runs.In[i].Kept.Blocks))
			}
			for l := range w.pool.cfg.Model.Layers {
				if s.seq.runs.In[w.pool.parts.Layers[l].Part].Gone == 0 {
					require.Equal(t, w.gathered(plain.seq, l), w.gathered(s.seq, l))
				}
			}
			w.drop(s)
			w.drop(plain)
			w.close()
		})
	}
}

// E6: guesses reach nobody: neither those that find prefixes nor those that watch, not even while a step has them. What is accepted
// is found as the tokens that it is.
func TestTreesReachNobody(t *testing.T) {
	w := newMixed(t, small(Paged))
	watch, _, err := w.pool.Watch(64)
	require.NoError(t, err)
	told := func() (all []uint32) {
		for len(watch.C) > 0 {
			e := <-watch.C
			all = append(all, e.Tokens...)
		}
		return all
	}
	s := w.fresh()
	require.NoError(t, w.run(deal{told: s, ids: sequence(1, 6)}))
	require.Equal(t, sequence(1, 4), told())
	tree := deal{told: s, ids: []uint32{90, 7, 91, 8, 92, 9, 10}, parents: []int{-1, -1, 0, 1, 1, 3, 5}, path: []int{1, 3, 5, 6}}
	require.NoError(t, w.plan(tree))
	w.layers([]deal{tree})
	require.Empty(t, told())
	require.NoError(t, w.step.Reset(), "given up with all of it")
	require.Equal(t, 6, s.seq.Len())
	require.NoError(t, w.run(tree))
	require.Equal(t, sequence(5, 4), told())
	other, m, err := w.pool.Open(sequence(1, 30), OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 8, m.Cached)
	w.expect(w.s, other, tokens(sequence(1, 8)...))
	w.expect(w.s, s.seq, tokens(sequence(1, 10)...))
	require.NoError(t, other.Release())
	w.drop(s)
	other, m, err = w.pool.Open(sequence(1, 30), OpenOptions{})
	require.NoError(t, err)
	require.Equal(t, 10, m.Cached)
	require.NoError(t, other.Release())
	w.pool.Unwatch(watch)
	w.close()
}

// E6: nodes that nobody accepts are no tokens of the sequence, also of the first tree that a batch has.
func TestTreesOfWhichNothingIsRight(t *testing.T) {
	w := newMixed(t, small(Paged))
	s := w.fresh()
	require.NoError(t, w.run(deal{told: s, ids: sequence(1, 6)}))
	require.NoError(t, w.run(deal{told: s, ids: []uint32{90, 91, 92}, parents: []int{-1, 0, 0}}))
	require.Equal(t, 6, s.seq.Len())
	require.Equal(t, sequence(1, 6), s.seq.text.Tokens())
	require.NoError(t, w.run(deal{told: s, ids: sequence(7, 5)}))
	require.Equal(t, sequence(1, 11), s.seq.text.Tokens())
	w.drop(s)
	w.close()
}

// Trees that are none, and paths that are none of theirs, are refused and change nothing, as is what a pool cannot do.
func TestTreesThatAreNone(t *testing.T) {
	w := newMixed(t, small(Paged))
	s, other := w.fresh(), w.fresh()
	require.NoError(t, w.run(deal{told: s, ids: sequence(1, 6)}, deal{told: other, ids: sequence(11, 2)}))
	for _, parents := range [][]int{{-1}, {0, -1}, {-1, 1}, {-2, 0}, {-1, 0, 1}} {
		require.ErrorIs(t, w.step.AddTree(s.seq, []uint32{7, 8}, parents), backend.ErrArgument{}, "%v", parents)
	}
	require.ErrorIs(t, w.step.AddTree(s.seq, nil, nil), backend.ErrArgument{})
	require.ErrorIs(t, w.step.AddTree(s.seq, make([]uint32, 35), append([]int{-1}, make([]int, 34)...)), ErrCapacity{Have: 41, Max: 40})
	require.ErrorIs(t, w.step.Accept(s.seq, nil), ErrStep{}, "not planned")
	tree := deal{told: s, ids: []uint32{7, 8, 9}, parents: []int{-1, 0, -1}}
	require.NoError(t, w.plan(tree, deal{told: other, ids: []uint32{13}}))
	w.layers([]deal{tree, {told: other, ids: []uint32{13}}})
	for _, path := range [][]int{{1}, {0, 2}, {3}, {-1}, {0, 1, 1}, {1, 0}} {
		require.ErrorIs(t, w.step.Accept(s.seq, path), backend.ErrArgument{}, "%v", path)
	}
	require.ErrorIs(t, w.step.Accept(other.seq, nil), backend.ErrArgument{}, "has no tree")
	require.ErrorIs(t, w.step.Commit(), ErrStep{}, "nobody has decided")
	require.NoError(t, w.step.Accept(s.seq, []int{0, 1}))
	require.NoError(t, w.step.Accept(s.seq, []int{2}), "another one after all")
	require.NoError(t, w.step.Commit())
	w.expect(w.s, s.seq, tokens(1, 2, 3, 4, 5, 6, 9))
	w.expect(w.s, other.seq, tokens(11, 12, 13))
	s.ids = append([]uint32(nil), s.seq.text.Tokens()...)
	require.NoError(t, w.run(deal{told: s, ids: []uint32{20, 21}, parents: []int{-1, 0}, path: nil}), "none of it")
	w.expect(w.s, s.seq, tokens(1, 2, 3, 4, 5, 6, 9))
	require.NoError(t, w.step.Reset())
	require.NoError(t, w.step.AddTree(s.seq, []uint32{20}, []int{-1}))
	require.ErrorIs(t, w.step.Add(s.seq, []uint32{1}), ErrStep{}, "a tree is the end")
	require.NoError(t, w.step.Reset())
	require.NoError(t, w.step.FixShape(1, 1))
	require.ErrorIs(t, w.step.AddTree(s.seq, []uint32{20}, []int{-1}), backend.ErrUnsupported{})
	require.NoError(t, w.step.FixShape(0, 0))
	waits, _, err := w.pool.Open(sequence(500, 5), OpenOptions{})
	require.NoError(t, err)
	for _, node := range []uint32{500, 600} { // as the prompt goes on, and as it does not
		require.ErrorIs(t, w.step.AddTree(waits, []uint32{node}, []int{-1}), ErrStep{}, "its prompt comes first")
	}
	require.NoError(t, w.step.Add(waits, sequence(500, 5)))
	require.NoError(t, w.step.AddTree(waits, []uint32{600}, []int{-1}))
	require.NoError(t, w.step.Reset())
	require.NoError(t, waits.Release())
	w.drop(s)
	w.drop(other)
	w.close()

	for name, change := range map[string]func(c *Config){
		"Residual": func(c *Config) { c.Storage.K, c.Model.Act, c.Storage.Residual = backend.Int8, backend.F32, 8 },
		"chunks":   func(c *Config) { c.Model.Groups = []config.Group{{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 8}} },
		"state": func(c *Config) {
			c.Model.VHeadDim = c.Model.HeadDim
			c.Model.Groups = []config.Group{{Kind: group.State, Layers: []int{0}, StateBytes: 8}, {Layers: []int{1}}}
		},
		"NonCausal": func(c *Config) { c.Model.NonCausal = true },
	} {
		cfg := small(Paged)
		change(&cfg)
		w := newMixed(t, cfg)
		s := w.fresh()
		err := w.step.AddTree(s.seq, []uint32{1}, []int{-1})
		require.ErrorIs(t, err, backend.ErrUnsupported{})
		require.ErrorContains(t, err, name)
		w.drop(s)
		w.close()
	}
	cfg := small(Paged)
	cfg.Model.Masks = []Mask{{Window: 2}, {}}
	w = newMixed(t, cfg)
	s = w.fresh()
	require.ErrorIs(t, w.step.AddTree(s.seq, sequence(1, 3), []int{-1, 0, 1}), backend.ErrArgument{})
	require.NoError(t, w.run(deal{told: s, ids: sequence(1, 4), parents: []int{-1, 0, 0, -1}, path: []int{0, 2}}))
	w.drop(s)
	w.close()
}

// Whatever fails while a tree is computed and accepted, a step that is reset has changed nothing, and the same can be done
// again.
func TestTreeFailures(t *testing.T) {
	for _, op := range []backendtest.Op{backendtest.OpUpload, backendtest.OpMoveSlots, backendtest.OpRecord, backendtest.OpCopyBlocks, backendtest.OpAlloc} {
		for after := range 3 {
			t.Run(fmt.Sprint(op, " ", after), func(t *testing.T) {
				r, dev, be := lateRig(t, small(Paged))
				w := mixedOn(r, 1)
				if !w.pool.caps.Views {
					closeLate(t, r, dev, be)
					skip(t)
				}
				s := w.fresh()
				require.NoError(t, w.run(deal{told: s, ids: sequence(1, 6)}))
				fork, err := s.seq.Fork()
				require.NoError(t, err)
				require.NoError(t, w.pool.Reserve(Reservation[buffer]{s.seq, 20}))
				before := w.stats()
				tree := deal{told: s, ids: sequence(7, 7), parents: []int{-1, 0, 0, 2, 3, 1, 4}, path: []int{0, 2, 3}}
				dev.failOn(op, after)
				err = w.plan(tree)
				if err == nil {
					for l := range w.pool.cfg.Model.Layers { // no error of theirs: those are of other tests
						dev.SetFault(nil)
						w.layer(l, []deal{tree})
					}
					dev.failOn(op, after)
					require.NoError(t, w.step.Accept(s.seq, tree.path))
					if err = w.step.Commit(); err != nil {
						again := w.step.Commit()
						dev.SetFault(nil)
						if again != nil && op == backendtest.OpMoveSlots {
							require.ErrorIs(t, again, ErrStep{})
						}
						if again == nil {
							err = nil
						}
					}
				}
				dev.SetFault(nil)
				if err != nil {
					require.NoError(t, w.step.Reset())
					require.Equal(t, 6, s.seq.Len())
					require.NoError(t, w.s.Sync())
					after := w.stats()
					after.Peak = before.Peak
					require.Equal(t, before, after)
					w.expect(w.s, s.seq, tokens(sequence(1, 6)...))
					require.NoError(t, w.run(tree))
				}
				w.expect(w.s, s.seq, tokens(1, 2, 3, 4, 5, 6, 7, 9, 10))
				w.expect(w.s, fork, tokens(sequence(1, 6)...))
				after := w.stats()
				require.Equal(t, before.Reserved-2, after.Reserved, "a copy and one block of those that were promised; the third came back")
				require.NoError(t, errors.Join(s.seq.Release(), fork.Release()))
				closeLate(t, r, dev, be)
			})
		}
	}
}
