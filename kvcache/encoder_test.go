package kvcache

import (
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/stretchr/testify/require"
)

// In a model that is not causal a token sees those behind it that come in the same call: all of them, or those within a window
// in both directions. Queries without new tokens, and batches with them, see what their ends say.
func TestEncoders(t *testing.T) {
	encoder := func(change func(c *Config)) Config {
		c := small(Paged)
		c.Model.NonCausal = true
		change(&c)
		return c
	}
	groups := manyKinds(config.Group{Kind: group.Window, Layers: []int{0, 2}, Window: 5}, config.Group{Kind: group.Chunked, Layers: []int{1}, Chunk: 8}, config.Group{Layers: []int{3}})
	groups.Model.NonCausal, groups.Memory.Rollback = true, 8
	for name, cfg := range map[string]Config{
		"paged": encoder(func(*Config) {}), "one place": encoder(func(c *Config) { c.Memory.Layout, c.Memory.BlockSize = Contiguous, 0 }),
		"window": encoder(func(c *Config) { c.Model.Masks = []Mask{{Window: 5}, {}} }), "groups": groups,
		"window and sinks":  encoder(func(c *Config) { c.Model.Masks = []Mask{{Window: 5, SinkTokens: 3}, {Window: 2}} }),
		"sinks beside none": encoder(func(c *Config) { c.Model.Masks = []Mask{{Window: 7, SinkTokens: 2}, {}} }),
		"widest windows": encoder(func(c *Config) {
			c.Model.Masks = []Mask{{Window: math.MaxInt32, SinkTokens: math.MaxInt32}, {Window: math.MaxInt32 - 1}}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newMixed(t, cfg)
			require.Equal(t, prefix.Off, w.pool.Config().Memory.Prefix)
			a, b := w.fresh(), w.fresh()
			require.NoError(t, w.run(deal{told: a, ids: sequence(1, 21)}, deal{told: b, ids: sequence(50, 6)}))
			require.NoError(t, w.run(deal{told: b, ids: sequence(60, 9)}), "which those before do not see")
			require.NoError(t, w.run(deal{told: a, views: []View{{20, 21}, {20, 18}, {19, 21}}}, deal{told: b, ids: sequence(70, 5)}, deal{told: b, ids: sequence(80, 3)}))
			require.ErrorIs(t, w.step.AddSpans(a.seq, sequence(1, 3), between(0, 2)), backend.ErrUnsupported{})
			require.NoError(t, w.step.Reset())
			w.drop(a)
			w.drop(b)
			w.close()
		})
	}
}

// The same in many steps, over windows and chunks that go on, with two additions of a sequence in a step.
func TestEncodersInManySteps(t *testing.T) {
	cfg := manyKinds(config.Group{Kind: group.Chunked, Layers: []int{0, 1}, Chunk: 12}, config.Group{Kind: group.Window, Layers: []int{2}, Window: 5, Sinks: 3})
	cfg.Model.NonCausal = true
	w := newMixed(t, cfg)
	a, b := w.fresh(), w.fresh()
	for range 6 {
		require.NoError(t, w.run(deal{told: a, ids: sequence(1+len(a.ids), 17)}, deal{told: b, ids: sequence(1+len(b.ids), 3)}))
		require.NoError(t, w.run(deal{told: a, ids: sequence(1+len(a.ids), 7)}, deal{told: a, ids: sequence(50, 6)}))
	}
	w.drop(a)
	w.drop(b)
	w.close()
}

// A runner with attention of its own gets what Attend gives: the ends of views say what rows see where there are views, and
// without them the mask does, as the step's metadata says.
func TestEncodersWithOwnKernels(t *testing.T) {
	cfg := small(Paged)
	cfg.Model.NonCausal = true
	w := newMixed(t, cfg)
	c := w.pool.Config()
	a, b := w.fresh(), w.fresh()
	require.NoError(t, w.run(deal{told: a, ids: sequence(1, 9)}))
	for _, of := range []struct {
		deals                    []deal
		ids                      []uint32
		contexts, queries, views []uint32
	}{
		{[]deal{{told: b, ids: sequence(20, 5)}}, sequence(20, 5), []uint32{5}, []uint32{5}, nil},
		{[]deal{{told: a, views: []View{{8, 9}, {2, 4}}}, {told: b, ids: sequence(30, 2)}, {told: b, ids: sequence(32, 1)}}, sequence(28, 5),
			[]uint32{9, 7, 8}, []uint32{2, 2, 1}, []uint32{8, 9, 2, 4, 5, 7, 6, 7, 7, 8}},
	} {
		require.NoError(t, w.plan(of.deals...))
		ix, err := w.step.Metadata(0)
		require.NoError(t, err)
		require.Equal(t, of.views == nil, ix.NonCausal)
		require.Equal(t, of.views != nil, ix.Views.Set)
		plan, err := w.be.PlanAttend(backend.AttendShape{QHeads: c.Model.QHeads, KVHeads: c.Model.KVHeads, KDim: c.Model.HeadDim, VDim: c.Model.VHeadDim,
			BlockSize: c.Memory.BlockSize, Format: c.FormatOf(0), NonCausal: ix.NonCausal, ContextLens: of.contexts, QueryLens: of.queries, Views: of.views})
		require.NoError(t, err)
		work, err := backend.AllocFrom(w.be, w.s, backend.U32, append(plan.Work, 0))
		require.NoError(t, err)
		space, err := w.be.Alloc(backend.F32, max(plan.Workspace, 1))
		require.NoError(t, err)
		for l := range c.Model.Layers {
			view, _, err := w.pool.Layer(l)
			require.NoError(t, err)
			q := w.vector(w.s, rows(of.ids, l+7, c.Model.QHeads, c.Model.HeadDim, false))
			out := w.vector(w.s, make([]float32, len(of.ids)*c.Model.QHeads*c.Model.VHeadDim))
			k, v := newRows(&c.Model, of.ids, l)
			kb, vb := w.vector(w.s, k), w.vector(w.s, v)
			require.NoError(t, w.step.Append(l, kv(kb, vb)))
			require.NoError(t, w.step.Attend(l, attending(q, out)))
			want := w.download(out)
			require.NoError(t, w.be.Fill(w.s, out, 0, out.Len(), 0))
			require.NoError(t, w.be.Attend(w.s, backend.AttendParams[buffer]{Cache: view, Batch: ix.Ragged, Q: backend.Dense(q), QHeads: c.Model.QHeads, Scale: c.Model.Scale,
				Mask: backend.Mask[buffer]{NonCausal: ix.NonCausal}, Plan: plan, Work: backend.Some(work), Workspace: backend.Some(space), Out: backend.Outputs[buffer]{Rows: backend.Dense(out)}}))
			require.InDeltaSlice(t, want, w.download(out), 1e-5)
			w.free(q, out, kb, vb)
		}
		require.NoError(t, w.step.Commit())
		w.free(work, space)
	}
	w.drop(a)
	w.drop(b)
	w.close()
}

// What does not go with such a model is refused.
func TestEncoderConfig(t *testing.T) {
	for field, change := range map[string]func(c *Config){
		"Memory.Prefix":             func(c *Config) { c.Memory.Prefix = prefix.LRU },
		"Storage.Residual":          func(c *Config) { c.Storage.K, c.Storage.Residual = backend.Int8, 8 },
		"Model.Masks[0].SinkTokens": func(c *Config) { c.Model.Masks = []Mask{{SinkTokens: 2}} },
	} {
		cfg := small(Paged)
		cfg.Model.NonCausal = true
		change(&cfg)
		_, err := cfg.Resolve()
		require.ErrorIs(t, err, backend.ErrConfig{}, field)
		require.ErrorContains(t, err, field)
	}
	causal, encoder := small(Paged), small(Paged)
	encoder.Model.NonCausal = true
	text, err := causal.Content()
	require.NoError(t, err)
	other, err := encoder.Content()
	require.NoError(t, err)
	require.NotEqual(t, text, other)
	require.Contains(t, other, "residual 0\nnon-causal yes\n")
	require.NotContains(t, text, "non-causal")
}

// Blocks of any number of tokens, where the device takes them; where it does not the error says what it takes.
func TestBlocksOfAnySize(t *testing.T) {
	for _, size := range []int{1, 3, 5, 12, 24, 40} {
		cfg := small(Paged)
		cfg.Memory.BlockSize = size
		if !testDevice().SupportsBlockSize(size) {
			be := openDevice(t)
			_, err := NewPool(be, cfg)
			require.ErrorIs(t, err, backend.ErrUnsupported{})
			require.ErrorContains(t, err, "power of two")
			require.NoError(t, be.Close())
			continue
		}
		w := newMixed(t, cfg)
		a, b := w.fresh(), w.fresh()
		for range 3 {
			require.NoError(t, w.run(deal{told: a, ids: sequence(1+len(a.ids), 7)}, deal{told: b, ids: sequence(50+len(b.ids), 1)}))
		}
		w.expect(w.s, a.seq, tokens(sequence(1, 21)...))
		w.expect(w.s, b.seq, tokens(sequence(50, 3)...))
		w.drop(a)
		w.drop(b)
		w.close()
	}
}
