package kvcache

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/stretchr/testify/require"
)

// quantizedFormats are those that the test device lists with an activation type and
// that a pool of one place takes: of K and V alike, and some mixed ones.
func quantizedFormats(act backend.DType) []backend.Format {
	var out []backend.Format
	for _, f := range testDevice().Caps.Formats {
		mixed := f.K == backend.Int8 && f.V == backend.Int4 || f.K == backend.FP8E4M3 && f.V == backend.Int4 ||
			f.K == backend.F16 && f.V == backend.Int4G64 || f.K == backend.Int8Asym && f.V == act
		if f.Act == act && f.K != backend.Int4Channel && (f.K.Quantized() && f.K == f.V || mixed) {
			out = append(out, f)
		}
	}
	return out
}

// quantizedConfig is small in a format, of heads with a short last group where the test
// device computes any.
func quantizedConfig(layout Layout, f backend.Format) Config {
	cfg := small(layout)
	cfg.Model.Act, cfg.Storage.K, cfg.Storage.V, cfg.Model.HeadDim, cfg.Model.VHeadDim, cfg.Memory.Capacity = f.Act, f.K, f.V, 80, 48, 60
	if testDevice().HeadDims != nil {
		cfg.Model.HeadDim, cfg.Model.VHeadDim = 64, 64
	}
	if layout == Paged {
		cfg.Memory.BlockSize = 16
	}
	return cfg
}

// farFromExact bounds attention over quantized rows against that over exact ones:
// ‖off‖/‖out‖ of rows whose elements have no outliers.
func farFromExact(dt backend.DType) float64 {
	switch dt {
	case backend.Int8, backend.Int8Asym:
		return 0.02
	case backend.FP8E4M3:
		return 0.1
	case backend.FP8E5M2, backend.Int4, backend.Int4G64, backend.Int4Channel:
		return 0.25
	case backend.MXFP4, backend.NVFP4:
		return 0.35
	}
	return 0.01
}

// Attention over quantized keys and values is that over what they read as, to the
// precision of the activation type, and near that over the exact ones; with Hadamard, too.
func TestQuantizedStepAttention(t *testing.T) {
	for _, act := range []backend.DType{backend.F32, backend.F16} {
		for _, f := range quantizedFormats(act) {
			for _, layout := range []Layout{Contiguous, Paged} {
				for _, hadamard := range []bool{false, true} {
					if hadamard && !f.K.Quantized() {
						continue
					}
					t.Run(fmt.Sprintf("%v/%v-%v/%s/%v", act, f.K, f.V, layout, hadamard), func(t *testing.T) {
						cfg := quantizedConfig(layout, f)
						cfg.Storage.Hadamard = hadamard
						got, exact := attendStep(t, cfg, 1)
						requireNear(t, "output of exact keys and values", exact, got, max(farFromExact(f.K), farFromExact(f.V)))
					})
				}
			}
		}
	}
}

// Skipped layers store what they compute with, and a step serves both kinds: each layer
// by the plan of its format.
func TestSkipLayers(t *testing.T) {
	for _, layout := range []Layout{Contiguous, Paged} {
		for _, f := range quantizedFormats(backend.F32) {
			if f.K != f.V {
				continue
			}
			cfg := quantizedConfig(layout, f)
			cfg.Model.Layers, cfg.Storage.SkipLayers, cfg.Storage.Hadamard, cfg.Attention.Scores = 3, []int{2, 0, 2}, true, true
			for layer := range cfg.Model.Layers {
				got, exact := attendStep(t, cfg, layer)
				if layer != 1 {
					requireNear(t, "output of a skipped layer", exact, got, 1e-5)
				}
			}
			r := deviceRig(t, cfg)
			require.Len(t, r.pool.parts.All[0].Kept.Formats, 2)
			for l, want := range []backend.DType{backend.F32, f.K, backend.F32} {
				view, _, err := r.pool.Layer(l)
				require.NoError(t, err)
				require.Equal(t, want, view.K.Data.DType())
				require.Equal(t, want, view.V.Data.DType())
				require.Equal(t, l == 1, view.K.Scales.Set && view.V.Scales.Set)
				require.Equal(t, l == 1, view.K.Hadamard)
				require.False(t, view.V.Hadamard)
			}
			r.close()
		}
	}
}

// With Hadamard the queries have to be seen: Append alone would leave them as they were.
func TestHadamardNeedsTheQueries(t *testing.T) {
	f := backend.Format{Act: backend.F32, K: backend.Int8, V: backend.Int8}
	cfg := quantizedConfig(Paged, f)
	if !testDevice().Supports(f) {
		t.Skipf("the device has no %v", f)
	}
	cfg.Storage.Hadamard, cfg.Storage.SkipLayers = true, []int{0}
	r := deviceRig(t, cfg)
	c := r.pool.Config()
	a := r.open()
	ids := sequence(1, 5)
	require.NoError(t, r.plan(r.s, feed[buffer]{a, ids}))
	var k, v buffer
	for l, want := range []error{nil, backend.ErrArgument{}} {
		k = r.vector(r.s, rows(ids, l, c.Model.KVHeads, c.Model.HeadDim, false))
		v = r.vector(r.s, rows(ids, l, c.Model.KVHeads, c.Model.VHeadDim, true))
		require.ErrorIs(t, r.step.Append(l, kv(k, v)), want, "only a layer that is turned")
		if l == 0 {
			r.free(k, v)
		}
	}
	require.ErrorIs(t, r.step.Commit(), ErrStep{})

	queries := rows(sequence(900, 5), 0, c.Model.QHeads, c.Model.HeadDim, false)
	turned := func(rotate bool) []float32 { // what Append makes of queries, turned back
		q := r.vector(r.s, queries)
		if rotate {
			require.NoError(t, r.step.Append(1, rotated(q, k, v)))
		} else {
			require.NoError(t, r.step.Append(1, qkv(q, k, v)))
		}
		got := r.download(q)
		for i := 0; i < len(got); i += c.Model.HeadDim {
			quant.Hadamard(got[i:][:c.Model.HeadDim])
		}
		r.free(q)
		return got
	}
	want := make([]float64, len(queries))
	for i, x := range queries {
		want[i] = float64(x)
	}
	requireNear(t, "queries", want, turned(false), 1e-6)
	for i := range want { // of token 0: position 0 turns nothing
		if i/(c.Model.QHeads*c.Model.HeadDim) > 0 {
			id, h := uint32(900+i/(c.Model.QHeads*c.Model.HeadDim)), i/c.Model.HeadDim%c.Model.QHeads
			want[i] = token{id, i / (c.Model.QHeads * c.Model.HeadDim)}.key(0, h, c.Model.HeadDim)[i%c.Model.HeadDim]
		}
	}
	requireNear(t, "rotated queries", want, turned(true), 1e-5)
	require.NoError(t, r.step.Commit())
	h := newHistory(2)
	h.add(ids)
	for i := range h.layers[1] {
		h.layers[1][i].turn, h.layers[1][i].rounds = i, 1
	}
	h.layers[0] = newPlaced(ids)
	r.expectHistory(r.s, a, h)
	r.free(k, v)
	require.NoError(t, a.Release())
	r.close()
}

func newPlaced(ids []uint32) []placed {
	h := newHistory(1)
	h.add(ids)
	return h.layers[0]
}

// What is not finite is an error, and the step can be reset and taken again; with
// Saturate it becomes finite.
func TestNonFiniteRows(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, f := range quantizedFormats(backend.F32) {
		for _, bad := range []float32{inf, -inf, nan} {
			for _, ofValue := range []bool{false, true} {
				cfg := quantizedConfig(Paged, f)
				r := deviceRig(t, cfg)
				c := r.pool.Config()
				a := r.open()
				require.NoError(t, r.feed(feed[buffer]{a, sequence(1, 18)}))
				before := r.stats()
				wrong := func(r *rig[buffer], seq *Sequence[buffer]) error {
					ids := sequence(19, 3)
					require.NoError(t, r.plan(r.s, feed[buffer]{seq, ids}))
					for l := range c.Model.Layers {
						hk, hv := rows(ids, l, c.Model.KVHeads, c.Model.HeadDim, false), rows(ids, l, c.Model.KVHeads, c.Model.VHeadDim, true)
						if x := hk; l == 1 {
							if ofValue {
								x = hv
							}
							x[len(x)-7] = bad
						}
						k, v := r.vector(r.s, hk), r.vector(r.s, hv)
						err := r.step.Append(l, kv(k, v))
						if err == nil {
							err = r.s.Sync() // a device that is not the host says it later
						}
						r.free(k, v)
						if err != nil {
							return err
						}
					}
					return r.step.Commit()
				}
				if of := f.K; ofValue {
					of = f.V
					if of.Quantized() {
						require.ErrorIs(t, wrong(r, a), backend.ErrNonFinite{})
					}
				} else if of.Quantized() {
					require.ErrorIs(t, wrong(r, a), backend.ErrNonFinite{})
				}
				require.NoError(t, r.step.Reset())
				require.Equal(t, 18, a.Len())
				after := r.stats()
				after.Peak = before.Peak
				require.Equal(t, before, after)
				require.NoError(t, r.feed(feed[buffer]{a, sequence(19, 3)}))
				h := newHistory(2)
				h.add(sequence(1, 21))
				r.expectHistory(r.s, a, h)
				require.NoError(t, a.Release())
				r.close()

				if of := map[bool]backend.DType{false: f.K, true: f.V}[ofValue]; !of.Quantized() {
					continue
				}
				cfg.Storage.Saturate = true
				r = deviceRig(t, cfg)
				a = r.open()
				require.NoError(t, wrong(r, a))
				got := r.gathered(a, 1)
				for _, x := range append(got.k, got.v...) {
					require.False(t, math.IsNaN(float64(x)) || math.IsInf(float64(x), 0), "%v", x)
				}
				require.NoError(t, a.Release())
				r.close()
			}
		}
	}
}

// Queries rounded to int8 are for devices and types that say so, and near the others.
func TestInt8QueryOfAPool(t *testing.T) {
	listed := map[backend.DType]bool{}
	for _, dt := range testDevice().Int8Query {
		listed[dt] = true
	}
	for _, f := range quantizedFormats(backend.F32) {
		cfg := quantizedConfig(Paged, f)
		cfg.Attention.Int8Query = true
		if !listed[f.K] {
			be := openDevice(t)
			_, err := NewPool(be, cfg)
			require.ErrorIs(t, err, backend.ErrUnsupported{}, "%v", f)
			require.Zero(t, be.Info().Buffers)
			require.NoError(t, be.Close())
			continue
		}
		cfg.Storage.SkipLayers = []int{0}
		var outs [2][]float32
		for i, on := range []bool{true, false} {
			cfg.Attention.Int8Query = on
			r := deviceRig(t, cfg)
			c := r.pool.Config()
			a := r.open()
			require.NoError(t, r.plan(r.s, feed[buffer]{a, sequence(1, 40)}))
			r.write(r.s, feed[buffer]{a, sequence(1, 40)})
			q := r.vector(r.s, rows(sequence(700, 40), 3, c.Model.QHeads, c.Model.HeadDim, false))
			out := r.vector(r.s, make([]float32, 40*c.Model.QHeads*c.Model.VHeadDim))
			for l := range 2 {
				require.NoError(t, r.step.Attend(l, attending(q, out)))
				outs[i] = append(outs[i], r.download(out)...)
			}
			require.NoError(t, r.step.Commit())
			r.free(q, out)
			require.NoError(t, a.Release())
			r.close()
		}
		half := len(outs[0]) / 2
		require.Equal(t, outs[1][:half], outs[0][:half], "a skipped layer")
		require.NotEqual(t, outs[1][half:], outs[0][half:])
		want := make([]float64, half)
		for i := range want {
			want[i] = float64(outs[1][half+i])
		}
		requireNear(t, "output", want, outs[0][half:], 5e-3)
	}
}

// A contiguous cache that grows takes its rows along with their scales, bit for bit.
func TestStandaloneGrowsWithScales(t *testing.T) {
	for _, f := range quantizedFormats(backend.F32) {
		for _, hadamard := range []bool{false, f.K.Quantized()} {
			cfg := quantizedConfig(Contiguous, f)
			cfg.Model.Layers, cfg.Memory.MaxSeqs, cfg.Model.RoPE, cfg.Memory.Capacity, cfg.Storage.Hadamard = 0, 0, nil, 700, hadamard
			be := openDevice(t)
			s, err := be.NewStream()
			require.NoError(t, err)
			c, err := NewStandalone(be, cfg)
			require.NoError(t, err)
			r := &rig[buffer]{t: t, be: be, s: s, pool: c.solo.seq.pool}
			appended := 0
			grow := func(n int) past {
				ids := sequence(1+appended, n)
				q := r.vector(s, make([]float32, n*cfg.Model.QHeads*cfg.Model.HeadDim))
				k := r.vector(s, rows(ids, 0, cfg.Model.KVHeads, cfg.Model.HeadDim, false))
				v := r.vector(s, rows(ids, 0, cfg.Model.KVHeads, cfg.Model.VHeadDim, true))
				require.NoError(t, c.Append(s, qkv(q, k, v), n))
				r.free(q, k, v)
				appended += n
				gk, err := be.Alloc(backend.F32, cfg.Model.KVHeads*appended*cfg.Model.HeadDim)
				require.NoError(t, err)
				gv, err := be.Alloc(backend.F32, cfg.Model.KVHeads*appended*cfg.Model.VHeadDim)
				require.NoError(t, err)
				require.NoError(t, c.Gather(s, gk, gv))
				p := past{appended, r.download(gk), r.download(gv)}
				r.free(gk, gv)
				return p
			}
			was := grow(firstCapacity - 1)
			now := grow(40)
			require.Equal(t, 2*firstCapacity, c.Capacity)
			require.Equal(t, f.K.ScaleWords(cfg.Model.HeadDim) > 0, c.KScales.Set && c.KScales.Buf.Len() > cfg.Model.KVHeads)
			for h := range cfg.Model.KVHeads {
				require.Equal(t, was.k[h*was.n*cfg.Model.HeadDim:][:was.n*cfg.Model.HeadDim], now.k[h*now.n*cfg.Model.HeadDim:][:was.n*cfg.Model.HeadDim], "%v", f)
				require.Equal(t, was.v[h*was.n*cfg.Model.VHeadDim:][:was.n*cfg.Model.VHeadDim], now.v[h*now.n*cfg.Model.VHeadDim:][:was.n*cfg.Model.VHeadDim], "%v", f)
			}
			require.NoError(t, errors.Join(c.Release(), s.Close()))
			require.Zero(t, be.Info().Buffers)
			require.NoError(t, be.Close())
		}
	}
}
