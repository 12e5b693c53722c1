package kvcache

import (
	"cmp"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A pool of any formats allocates what Bytes says, to the byte, and BlocksFor is its
// inverse.
func TestQuantizedSizeFormula(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		storage := func(name string) backend.DType {
			return rapid.SampledFrom([]backend.DType{backend.F16, backend.Int8, backend.Int8Asym, backend.Int4, backend.Int4G64, backend.MXFP4, backend.NVFP4, backend.FP8E4M3, backend.FP8E5M2}).Draw(t, name)
		}
		cfg := Config{
			Model:   Model{Layers: rapid.IntRange(1, 4).Draw(t, "layers"), KVHeads: rapid.IntRange(1, 3).Draw(t, "heads"), HeadDim: 2 * rapid.IntRange(1, 70).Draw(t, "dim"), VHeadDim: 2 * rapid.IntRange(0, 70).Draw(t, "v dim"), Act: rapid.SampledFrom([]backend.DType{backend.F32, backend.BF16}).Draw(t, "act")},
			Storage: Storage{K: storage("K"), V: storage("V")},
			Memory:  Memory{Layout: rapid.SampledFrom([]Layout{Contiguous, Paged}).Draw(t, "layout"), Capacity: rapid.IntRange(1, 300).Draw(t, "capacity"), MaxSeqs: rapid.IntRange(1, 4).Draw(t, "sequences")},
		}
		if rapid.Bool().Draw(t, "rope") {
			cfg.Model.RoPE = &backend.RoPE{}
		}
		quantized := cfg.Storage.K.Quantized() && cfg.Storage.V.Quantized()
		if rapid.Bool().Draw(t, "sinks") {
			cfg.Model.Masks = []Mask{{SinkLogits: make([]float32, cfg.Model.KVHeads)}}
		}
		if cfg.Memory.Layout == Paged && quantized && rapid.Bool().Draw(t, "residual") {
			cfg.Storage.Residual, cfg.Memory.StepTokens = rapid.IntRange(1, 40).Draw(t, "window"), rapid.IntRange(0, 40).Draw(t, "step")
			cfg.Storage.K = rapid.SampledFrom([]backend.DType{cfg.Storage.K, backend.Int4Channel}).Draw(t, "by channel")
		} else {
			cfg.Attention.Scores = rapid.Bool().Draw(t, "scores")
			if cfg.Storage.K.Quantized() || cfg.Storage.V.Quantized() {
				cfg.Storage.SkipLayers = rapid.SliceOfN(rapid.IntRange(0, cfg.Model.Layers-1), 0, 3).Draw(t, "skip")
			}
		}
		requireExactSize(t, cfg)
	})
}

// A stand-alone cache of quantized tokens with a window of exact ones gives what a sequence of a pool does.
func TestStandaloneWithResidual(t *testing.T) {
	r := windowRig(t, openDevice(t), func(c *Config) { c.Model.Layers, c.Memory.MaxSeqs, c.Storage.SkipLayers = 1, 1, nil })
	c := r.pool.Config()
	seq := r.open()
	cache, err := NewStandalone(r.be, c)
	require.NoError(t, err)
	for _, n := range []int{3, 30, 1, 17} {
		ids := sequence(100+seq.Len(), n)
		q, out := r.vector(r.s, rows(sequence(5000, n), 0, c.Model.QHeads, c.Model.HeadDim, false)), r.vector(r.s, make([]float32, n*c.Model.QHeads*c.Model.VHeadDim))
		k, v := r.vector(r.s, rows(ids, 0, c.Model.KVHeads, c.Model.HeadDim, false)), r.vector(r.s, rows(ids, 0, c.Model.KVHeads, c.Model.VHeadDim, true))
		require.NoError(t, r.plan(r.s, feed[buffer]{seq, ids}))
		require.NoError(t, r.step.Append(0, kv(k, v)))
		require.NoError(t, r.step.Attend(0, attending(q, out)))
		require.NoError(t, r.step.Commit())
		want := r.download(out)
		require.NoError(t, cache.Append(r.s, kv(k, v), n))
		require.NoError(t, cache.Attend(r.s, attending(q, out), n))
		require.Equal(t, want, r.download(out))
		require.Equal(t, seq.Len(), cache.Len)
		require.Equal(t, seq.runs.In[0].Kept.End(), len(cache.PagedBlockIndices))
		require.Equal(t, seq.runs.In[0].Written.End(), len(cache.Residual.PagedBlockIndices))
		require.True(t, cache.BlockTable.Set && cache.Residual.BlockTable.Set)
		r.free(q, out, k, v)
	}
	require.NoError(t, cache.Truncate(9))
	require.Equal(t, 9, cache.Residual.Len)
	require.False(t, cache.Residual.BlockTable.Set)
	require.NoError(t, cache.Release())
	require.NoError(t, cmp.Or(r.step.Reset(), seq.Release()))
	r.close()
}
