package kvcache

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// mixedKinds are pools of all kinds, without groups, too.
func mixedKinds() map[string]Config {
	all := kinds()
	if emulated(testDevice().Info) && !testsize.Full() {
		all = map[string]Config{"all": all["all"], "sinks": all["sinks"]}
	}
	plain := func(change func(c *Config)) Config {
		c := small(Paged)
		c.Memory.Capacity, c.Model.RoPE = 200, nil // whose positions would end before the tokens do
		change(&c)
		return c
	}
	all["paged"] = plain(func(*Config) {})
	all["masks"] = plain(func(c *Config) { c.Model.Masks = []Mask{{Window: 7, SinkTokens: 2}, {Window: 11}} })
	all["one place"] = plain(func(c *Config) { c.Memory.Layout, c.Memory.BlockSize = Contiguous, 0 })
	all["recent"] = plain(func(c *Config) {
		c.Storage.K, c.Model.Act, c.Storage.Residual = backend.Int8, backend.F32, 9
	})
	all["a long step"] = plain(func(c *Config) {
		c.Storage.K, c.Model.Act, c.Storage.Residual, c.Memory.StepTokens = backend.Int8, backend.F32, 9, 6
	})
	all["scores of a long step"] = plain(func(c *Config) {
		c.Storage.K, c.Model.Act, c.Storage.Residual, c.Memory.StepTokens = backend.Int8, backend.F32, 9, 6
		c.Attention.Scores = true
	})
	all["scores"] = plain(func(c *Config) { c.Attention.Scores = true })
	if testDevice().Chunk {
		all["chunks in masks"] = plain(func(c *Config) { c.Model.Masks = []Mask{{Chunk: 12}, {}} })
	}
	if testDevice().AnyBlockSize {
		all["blocks of seven"] = plain(func(c *Config) { c.Memory.BlockSize = 7 })
	}
	return all
}

// One batch has a prompt, a decode step, an image whose tokens see each other, cross attention to a sequence that the step
// does not write, a tree of guesses, and a sequence that is read where it ends: each row sees what it should.
func TestStepOfEverything(t *testing.T) {
	for name, cfg := range mixedKinds() {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.Memory.MaxSeqs = 7
			w := newMixed(t, cfg)
			prompt, decode, image, read, other, tree := w.fresh(), w.fresh(), w.fresh(), w.fresh(), w.fresh(), w.fresh()
			require.NoError(t, w.run(deal{told: decode, ids: sequence(100, 13)}, deal{told: image, ids: sequence(200, 5)}, deal{told: read, ids: sequence(300, 11)},
				deal{told: other, ids: sequence(400, 6)}, deal{told: tree, ids: sequence(500, 9)}))
			for range 3 {
				deals := []deal{{told: prompt, ids: sequence(600, 15)}, {told: decode, ids: []uint32{700}}}
				if w.takes(image, Span{Begin: 2, End: 6}) {
					deals = append(deals, deal{told: image, ids: sequence(800, 9), spans: between(2, 6, 6, 8)})
				}
				if !w.hasStates() {
					deals = append(deals, deal{told: read, views: []View{{10, 11}, {9, 11}, {10, 4}}}, deal{told: other, views: once(2, 6)[:w.crosses(other)]})
					deals = append(deals, deal{told: read, views: []View{{10, 0}}})
				}
				if w.growsTrees() {
					deals = append(deals, deal{told: tree, ids: sequence(900, 7), parents: []int{-1, 0, 0, 1, 1, 2, -1}, path: []int{0, 2, 5}})
				}
				deals = append(deals, deal{told: decode, ids: []uint32{701, 702}})
				for i := range deals {
					if deals[i].views != nil && len(deals[i].views) == 0 {
						deals[i] = deal{told: prompt, ids: []uint32{1}}
					}
				}
				require.NoError(t, w.run(deals...))
			}
			for _, s := range []*told{prompt, decode, image, read, other, tree} {
				require.Equal(t, len(s.ids), s.seq.Len())
				require.NoError(t, w.run(deal{told: s, ids: []uint32{9}}))
				w.drop(s)
			}
			w.close()
		})
	}
}

// crosses is how many queries from position 0 the test asks of a sequence: those of a window that has moved on would see what
// is gone.
func (w *mixed) crosses(s *told) int {
	for i := range s.seq.runs.In {
		if s.seq.runs.In[i].Gone > 0 {
			return 0
		}
	}
	return 2
}

func (w *mixed) hasStates() bool {
	for _, st := range w.pool.parts.All {
		if st.States != nil {
			return true
		}
	}
	return false
}

func (w *mixed) growsTrees() bool {
	return !w.hasStates() && len(w.pool.chunks) == 0 && w.pool.cfg.Storage.Residual == 0
}

// takes reports whether a span of a sequence's next tokens lies in one chunk of every layer.
func (w *mixed) takes(s *told, of Span) bool {
	for _, chunk := range w.pool.chunks {
		if (len(s.ids)+of.Begin)/chunk != (len(s.ids)+of.End+1)/chunk {
			return false
		}
	}
	return true
}

// Random histories of all of it, in pools too small for all sequences: of groups as TestGroupsModel, with spans, trees, queries
// and several additions of a sequence in a step, some of which are given up.
func TestMixedModel(t *testing.T) {
	n := cmp.Or(*operations, 100)
	if *operations == 0 && emulated(testDevice().Info) {
		n = 15
	}
	if *operations == 0 && testsize.Full() {
		n *= 20
	}
	for name, cfg := range mixedKinds() {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(2) {
				cfg := cfg
				if cfg.Model.Groups != nil {
					cfg.Memory.Rollback, cfg.Memory.RetainEvery = max(cfg.Memory.Rollback, []int{-1, 3}[seed]), []int{1, 0}[seed]
				}
				if cfg.Memory.Layout == Paged {
					cfg.Memory.Blocks = 70
				} else {
					cfg.Memory.MaxSeqs = 7
				}
				w := newMixed(t, cfg)
				w.rng = rand.New(rand.NewPCG(seed, 2))
				w.history(n)
				w.close()
			}
		})
	}
}

// history does so many things, and gives back what there is then.
func (w *mixed) history(operations int) {
	w.t.Helper()
	for range operations {
		if w.rng.IntN(3) > 0 {
			w.mix()
		} else {
			w.act()
		}
		require.NoError(w.t, w.pool.Check())
		if w.events != nil {
			w.listen()
		}
	}
	for len(w.seqs) > 0 {
		w.drop(w.seqs[0])
	}
}

// The same on a device that is behind: it does nothing before somebody waits for it.
func TestMixedModelOnALateDevice(t *testing.T) {
	all := mixedKinds()
	for _, name := range []string{"paged", "one place", "sinks", "recent", "scores"} {
		t.Run(name, func(t *testing.T) {
			cfg := all[name]
			if cfg.Memory.Layout == Paged {
				cfg.Memory.Blocks = 70
			} else {
				cfg.Memory.MaxSeqs = 7
			}
			r, dev, be := lateRig(t, signed(cfg))
			w := mixedOn(r, 9)
			if !w.pool.caps.Views {
				closeLate(t, r, dev, be)
				skip(t)
			}
			w.history(60)
			closeLate(t, r, dev, be)
		})
	}
}

// mix does a step of random deals.
func (w *mixed) mix() {
	w.t.Helper()
	if len(w.seqs) == 0 {
		w.begin()
		return
	}
	var deals []deal
	for _, s := range w.seqs {
		for i := range w.rng.IntN(3) {
			if d, ok := w.deal(s, deals); ok && (i == 0 || d.views == nil == (deals[len(deals)-1].views == nil)) {
				deals = append(deals, d)
				if d.draft > 0 || d.parents != nil {
					break
				}
			} else {
				break
			}
		}
	}
	if len(deals) == 0 {
		return
	}
	err := w.plan(deals...)
	switch {
	case err == nil:
	case errors.Is(err, ErrOutOfBlocks{}):
		return
	case errors.Is(err, ErrView{}):
		require.Positive(w.t, w.gone(), "nothing is gone")
		return
	default:
		require.NoError(w.t, err)
	}
	if w.rng.IntN(6) == 0 && !w.hasStates() {
		if w.rng.IntN(2) == 0 {
			w.layers(deals)
		}
		require.NoError(w.t, w.step.Reset())
		return
	}
	w.layers(deals)
	require.NoError(w.t, w.commit(deals))
}

// gone is the blocks that sequences have given up.
func (w *mixed) gone() (n int) {
	for _, s := range w.seqs {
		for i := range s.seq.runs.In {
			n += s.seq.runs.In[i].Gone
		}
	}
	return n
}

// deal is something for a sequence, behind what deals give it.
func (w *mixed) deal(s *told, deals []deal) (d deal, ok bool) {
	n := len(s.ids)
	for i := range deals {
		if deals[i].told == s {
			n += len(deals[i].ids)
		}
	}
	room := min(w.pool.cfg.Memory.Capacity-n, w.pool.cfg.Memory.Capacity-n-(s.seq.NextPosition()-len(s.ids)), 9)
	if d.told = s; room <= 0 {
		return d, false
	}
	ids := s.seq.text.Tokens()
	if prompt := s.seq.text.Prompt(); prompt > n {
		ids = append([]uint32(nil), ids[n:n+1+w.rng.IntN(min(prompt-n, room))]...)
	} else {
		ids = nil
		for range 1 + w.rng.IntN(room) {
			ids = append(ids, uint32(w.rng.IntN(3)))
		}
	}
	guess := func() (id uint32) {
		id, w.guess = guesses+w.guess, w.guess+1
		return id
	}
	switch kind := w.rng.IntN(6); {
	case kind == 0 && !w.hasStates() && len(s.ids) > 0 && n == len(s.ids):
		for range 1 + w.rng.IntN(5) {
			v := View{len(s.ids) - 1, len(s.ids)}
			if w.rng.IntN(2) == 0 {
				v = View{w.rng.IntN(len(s.ids)), w.rng.IntN(len(s.ids) + 1)}
			}
			d.views = append(d.views, v)
		}
		return d, true
	case kind == 1 && w.growsTrees() && s.seq.text.Prompt() <= n:
		var depth []int
		for i := range ids {
			parent := w.rng.IntN(i+1) - 1
			if parent >= 0 && w.pool.narrowest > 0 && depth[parent]+1 >= w.pool.narrowest {
				parent = -1
			}
			at := 0
			if parent >= 0 {
				at = depth[parent] + 1
			}
			depth, d.parents, d.ids = append(depth, at), append(d.parents, parent), append(d.ids, guess())
		}
		for node := w.rng.IntN(len(ids)+1) - 1; node >= 0; node = d.parents[node] {
			d.path = append([]int{node}, d.path...)
		}
		return d, true
	case kind == 2:
		d.ids = ids
		for at := 0; at < len(ids); {
			begin := at + w.rng.IntN(3)
			end := begin + 1 + w.rng.IntN(5)
			for _, chunk := range w.pool.chunks {
				end = min(end, ((n+begin)/chunk+1)*chunk-n)
			}
			if end > len(ids) {
				break
			}
			d.spans, at = append(d.spans, Span{Begin: begin, End: end}), end
		}
		return d, true
	case kind == 3 && s.seq.text.Prompt() <= n:
		d.draft = w.rng.IntN(len(ids) + 1)
		for i := len(ids) - d.draft; i < len(ids); i++ {
			ids[i] = guess()
		}
	}
	d.ids = ids
	return d, true
}

// What is made of groups where chunks are masks: in the contiguous layout they are.
func TestChunksInOnePlace(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0}, Chunk: 10}, config.Group{Layers: []int{1}})
	cfg.Memory.Layout, cfg.Memory.BlockSize = Contiguous, 0
	if !testDevice().Chunk {
		_, err := NewPool(openDevice(t), cfg)
		require.ErrorIs(t, err, backend.ErrUnsupported{})
		require.ErrorContains(t, err, "group of kind chunked")
		return
	}
	w := newMixed(t, cfg)
	s := w.fresh()
	require.NoError(t, w.run(deal{told: s, ids: sequence(1, 8)}))
	require.ErrorIs(t, w.plan(deal{told: s, ids: sequence(9, 6), spans: between(1, 3)}), backend.ErrUnsupported{})
	require.ErrorIs(t, w.plan(deal{told: s, ids: sequence(9, 2), parents: []int{-1, 0}}), backend.ErrUnsupported{})
	require.NoError(t, w.run(deal{told: s, ids: sequence(9, 30), spans: between(2, 6)}))
	w.drop(s)
	w.close()
}

// A warm step of everything allocates nothing.
func TestWarmMixedStepAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	cfg := small(Paged)
	cfg.Memory.Capacity = 4096
	w := newMixed(t, cfg)
	if emulated(w.be.Info()) {
		w.close()
		t.Skip("devices that are emulated allocate by themselves")
	}
	w.pool.Unwatch(w.events) // what is told is allocated
	w.events = nil
	seqs := []*told{w.fresh(), w.fresh(), w.fresh(), w.fresh()}
	require.NoError(t, w.run(deal{told: seqs[0], ids: sequence(1, 9)}, deal{told: seqs[1], ids: sequence(20, 9)}, deal{told: seqs[2], ids: sequence(40, 9)}, deal{told: seqs[3], ids: sequence(60, 9)}))
	q, k, v, out := w.operands(1 + 3 + 2 + 5 + 1)
	views, spans, parents, path := once(2, 9), between(1, 3), []int{-1, 0, 0, 1, 3}, []int{0, 1, 3}
	step := func() {
		err := w.step.Reset()
		err = cmp.Or(err, w.step.Add(seqs[0].seq, []uint32{7}))
		err = cmp.Or(err, w.step.AddSpans(seqs[1].seq, []uint32{8, 9, 10}, spans))
		err = cmp.Or(err, w.step.Query(seqs[2].seq, views))
		err = cmp.Or(err, w.step.Add(seqs[0].seq, []uint32{7}))
		err = cmp.Or(err, w.step.AddTree(seqs[3].seq, []uint32{1, 2, 3, 4, 5}, parents))
		err = cmp.Or(err, w.step.Plan(w.s))
		for l := range cfg.Model.Layers {
			err = cmp.Or(err, w.step.Append(l, rotated(q, k, v)))
			err = cmp.Or(err, w.step.Attend(l, attending(q, out)))
		}
		err = cmp.Or(err, w.step.Accept(seqs[3].seq, path))
		if err = cmp.Or(err, w.step.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	for range 350 {
		step()
	}
	require.Zero(t, testing.AllocsPerRun(300, step))
	for _, s := range seqs {
		w.drop(s)
	}
	w.free(q, k, v, out)
	w.close()
}
