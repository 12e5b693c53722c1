package kvcache

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// needLatents skips a test where the device has none.
func needLatents(t *testing.T) {
	if !testDevice().Latent {
		t.Skip("the device has no latent caches")
	}
}

// latents is a pool of latents alone, of dims for which processors have products of matrices: 8 query heads meet keys of 48
// elements.
func latents(layout Layout, dt backend.DType) Config {
	c, d := latent(small(layout)), latentDims(48, 32)
	c.Model.QHeads, c.Model.HeadDim, c.Model.VHeadDim, c.Model.Act, c.Model.RoPE = 8, d[0], d[1], backend.F32, nil
	c.Storage.K, c.Memory.Capacity = dt, 200
	return c
}

// Random histories of pools of latents are those of lists of tokens: every row that is computed is compared with the model.
func TestLatentsModel(t *testing.T) {
	needLatents(t)
	for _, dt := range []backend.DType{backend.F32, backend.F16, backend.BF16, backend.Int8, backend.FP8E4M3} {
		for _, layout := range []Layout{Contiguous, Paged} {
			t.Run(fmt.Sprintf("%s/%s", dt, layout), func(t *testing.T) {
				cfg := latents(layout, dt)
				if layout == Paged {
					cfg.Memory.Blocks = 70
				}
				if dt == backend.Int8 {
					cfg.Storage.SkipLayers = []int{1}
				}
				groupsHistory(newGrouped(t, cfg, uint64(dt)), 60)
			})
		}
	}
}

// Latents that are quantized behind a window of exact ones, in steps that are longer than there is room for: their layers use
// one cache of exact latents in turn.
func TestLatentsInLongSteps(t *testing.T) {
	needLatents(t)
	cfg := latents(Paged, backend.Int8)
	cfg.Storage.Residual, cfg.Memory.StepTokens, cfg.Attention.Scores = 7, 8, true
	w := newGrouped(t, cfg, 1)
	a, _ := w.open(nil)
	b, _ := w.open(nil)
	require.NoError(t, w.run(ask{a, sequence(1, 50)}))
	require.NoError(t, w.run(ask{a, sequence(51, 3)}, ask{b, sequence(300, 40)}))
	require.NoError(t, w.run(ask{a, sequence(54, 30)}, ask{b, sequence(340, 1)}))
	child, err := a.seq.Fork()
	require.NoError(t, err)
	c := &told{seq: child, ids: append([]uint32(nil), a.ids...)}
	w.seqs = append(w.seqs, c)
	require.NoError(t, w.run(ask{c, sequence(400, 20)}, ask{a, sequence(500, 1)}))
	for _, s := range []*told{a, b, c} {
		w.expect(w.s, s.seq, tokens(s.ids...))
	}
	for len(w.seqs) > 0 {
		w.drop(w.seqs[0])
	}
	w.close()
}

// A pool of latents takes one plane, and finds prompts, forks and reads them as any other.
func TestLatentsAreShared(t *testing.T) {
	needLatents(t)
	cfg := latents(Paged, backend.BF16)
	dims := [2]int{cfg.Model.HeadDim, cfg.Model.VHeadDim}
	w := newGrouped(t, cfg, 1)
	st := w.stats()
	require.EqualValues(t, 2*4*dims[0]*2, st.BytesPerBlock, "2 layers, blocks of 4 tokens, elements of 2 bytes")
	perToken, err := cfg.BytesPerToken()
	require.NoError(t, err)
	require.EqualValues(t, 2*dims[0]*2, perToken)
	view, _, err := w.pool.Layer(1)
	require.NoError(t, err)
	require.True(t, view.Latent)
	require.Equal(t, dims, [2]int{view.K.Dim, view.V.Dim})

	prompt := sequence(1, 30)
	a, m := w.open(prompt)
	require.Zero(t, m.Cached)
	require.NoError(t, w.run(ask{a, prompt}))
	layers, err := a.seq.Layers(w.s)
	require.NoError(t, err)
	require.True(t, layers[0].Latent)
	require.Equal(t, dims, [2]int{layers[0].HeadDim, layers[0].VHeadDim})
	require.Zero(t, layers[0].V.Len(), "there are no values")

	child, err := a.seq.Fork()
	require.NoError(t, err)
	b := &told{seq: child, ids: append([]uint32(nil), a.ids...)}
	w.seqs = append(w.seqs, b)
	require.NoError(t, w.run(ask{a, sequence(100, 3)}, ask{b, sequence(200, 5)}))
	c, m := w.open(append(sequence(1, 28), sequence(500, 9)...))
	require.Equal(t, 28, m.Cached)
	require.NoError(t, w.run(ask{c, sequence(500, 9)}))
	for _, s := range []*told{a, b, c} {
		w.expect(w.s, s.seq, tokens(s.ids...))
	}
	for len(w.seqs) > 0 {
		w.drop(w.seqs[0])
	}
	w.close()
}

// Other keys with the same dims are not those of latents.
func TestLatentsHaveTheirOwnKeys(t *testing.T) {
	cfg := latents(Paged, backend.BF16)
	first, err := cfg.Fingerprint()
	require.NoError(t, err)
	cfg.Model.Latent = false
	second, err := cfg.Fingerprint()
	require.NoError(t, err)
	require.NotEqual(t, first.Root(prefix.Scope{}).Key, second.Root(prefix.Scope{}).Key)
}

// Append turns what keys have behind their latents, and Shift does it again.
func TestLatentsAreShifted(t *testing.T) {
	needLatents(t)
	for _, layout := range []Layout{Contiguous, Paged} {
		cfg := latents(layout, backend.F32)
		cfg.Model.RoPE = &backend.RoPE{}
		kDim, vDim := cfg.Model.HeadDim, cfg.Model.VHeadDim
		r := deviceRig(t, cfg)
		seq := r.open()
		ids := sequence(1, 20)
		require.NoError(t, r.plan(r.s, feed[buffer]{seq, ids}))
		for l := range cfg.Model.Layers {
			hk, hv := newRows(&cfg.Model, ids, l)
			q, k, v := r.vector(r.s, rows(ids, 5, 8, kDim, false)), r.vector(r.s, hk), r.vector(r.s, hv)
			require.NoError(t, r.step.Append(l, rotated(q, k, v)))
			got := r.download(q)
			for i, id := range ids { // queries are turned by their positions, as keys are
				for d, x := range (token{id, i}).keyBehind(5, 3, kDim, vDim) {
					require.InDelta(t, x, got[(i*8+3)*kDim+d], 1e-4, "token %d, element %d", i, d)
				}
			}
			r.free(q, k, v)
		}
		require.NoError(t, r.step.Commit())
		require.NoError(t, seq.Shift(r.s, 4, 9))
		var want []token
		for i, id := range ids {
			if i < 4 {
				want = append(want, token{id, i})
			} else if i >= 9 {
				want = append(want, token{id, i - 5})
			}
		}
		r.expect(r.s, seq, want)
		require.NoError(t, seq.Release())
		r.close()
	}
}

// A stand-alone cache of latents grows with its scales and scores, in both layouts.
func TestStandaloneLatents(t *testing.T) {
	needLatents(t)
	for _, layout := range []Layout{Contiguous, Paged} {
		cfg := lone(layout, 1000)
		dims := latentDims(24, 16)
		cfg.Model.Latent, cfg.Model.HeadDim, cfg.Model.VHeadDim, cfg.Model.Scale, cfg.Attention.Scores = true, dims[0], dims[1], 0.25, true
		o := newCache(t, cfg)
		require.True(t, o.c.Latent)
		require.Zero(t, o.c.V.Len())
		require.NoError(t, o.append(sequence(1, 200)))
		o.expect(sequence(1, 200))
		require.NoError(t, o.append(sequence(201, 300)))
		o.expect(sequence(1, 500))
		require.NoError(t, o.c.Truncate(7))
		o.expect(sequence(1, 7))
		o.close()
	}
}

// noLatents is a device that has none.
type noLatents struct{ backend.Backend[buffer] }

func (d noLatents) Caps() backend.Caps {
	c := d.Backend.Caps()
	c.Latent = false
	return c
}

// A device without latents says so when the pool is made, and nothing is left behind.
func TestLatentsAreRefused(t *testing.T) {
	be := openDevice(t)
	for _, layout := range []Layout{Contiguous, Paged} {
		_, err := NewPool[buffer](noLatents{be}, latents(layout, backend.F32))
		require.ErrorIs(t, err, backend.ErrUnsupported{})
		require.ErrorContains(t, err, "latent")
	}
	require.Zero(t, be.Info().Buffers)
	require.NoError(t, be.Close())
}

// A warm step over latents allocates nothing, and rows of the wrong length are refused.
func TestLatentSteps(t *testing.T) {
	needLatents(t)
	cfg := latents(Paged, backend.F16)
	cfg.Memory.Capacity, cfg.Memory.MaxSeqs = 2000, 1
	r := deviceRig(t, cfg)
	seq := r.open()
	q, k, v, out := r.operands(1)
	kDim, vDim := cfg.Model.HeadDim, cfg.Model.VHeadDim
	require.Equal(t, [4]int{8 * kDim, kDim - vDim, vDim, 8 * vDim}, [4]int{q.Len(), k.Len(), v.Len(), out.Len()})
	one := []uint32{7}
	step := func() {
		err := errors.Join(r.step.Reset(), r.step.Add(seq, one), r.step.Plan(r.s))
		for l := range cfg.Model.Layers {
			err = errors.Join(err, r.step.Append(l, kv(k, v)), r.step.Attend(l, attending(q, out)))
		}
		if err = errors.Join(err, r.step.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	for range 350 {
		step()
	}
	if testDevice().HostVisible {
		require.Zero(t, testing.AllocsPerRun(300, step))
	}
	require.NoError(t, r.step.Reset())
	require.NoError(t, r.step.Add(seq, one))
	require.NoError(t, r.step.Plan(r.s))
	short := r.vector(r.s, make([]float32, kDim-vDim-1))
	require.ErrorIs(t, r.step.Append(0, kv(short, v)), backend.ErrArgument{})
	require.NoError(t, r.step.Reset())
	require.NoError(t, seq.Release())
	r.free(q, k, v, out, short)
	r.close()
}

// A key may have nothing behind its latent: rows of that may be unset, and nothing else.
func TestLatentsWithNothingBehind(t *testing.T) {
	needLatents(t)
	cfg := latents(Paged, backend.F32)
	cfg.Model.HeadDim = cfg.Model.VHeadDim
	if !testDevice().SupportsLatent(cfg.Model.HeadDim, cfg.Model.VHeadDim) {
		t.Skip("the device has no such dims")
	}
	r := deviceRig(t, cfg)
	seq, ids := r.open(), sequence(1, 9)
	require.NoError(t, r.plan(r.s, feed[buffer]{seq, ids}))
	for l := range cfg.Model.Layers {
		_, hv := newRows(&cfg.Model, ids, l)
		v := r.vector(r.s, hv)
		require.ErrorIs(t, r.step.Append(l, LayerIO[buffer]{K: backend.Dense(v)}), backend.ErrArgument{}, "no latents")
		if l == 0 {
			require.NoError(t, r.step.Append(l, LayerIO[buffer]{K: backend.Dense(v), V: backend.Dense(v)}), "of which it takes nothing")
		}
		require.NoError(t, r.step.Append(l, LayerIO[buffer]{V: backend.Dense(v)}))
		r.free(v)
	}
	require.NoError(t, r.step.Commit())
	r.expect(r.s, seq, tokens(ids...))
	require.NoError(t, seq.Release())
	r.close()

	r = deviceRig(t, latents(Paged, backend.F32))
	seq = r.open()
	require.NoError(t, r.plan(r.s, feed[buffer]{seq, ids}))
	v := r.vector(r.s, make([]float32, len(ids)*cfg.Model.VHeadDim))
	require.ErrorIs(t, r.step.Append(0, LayerIO[buffer]{V: backend.Dense(v)}), backend.ErrArgument{}, "here it has something")
	require.ErrorIs(t, r.step.Append(9, LayerIO[buffer]{V: backend.Dense(v)}), backend.ErrArgument{}, "no such layer")
	require.NoError(t, r.step.Reset())
	require.NoError(t, seq.Release())
	r.free(v)
	r.close()
}
