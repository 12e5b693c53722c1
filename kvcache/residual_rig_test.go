package kvcache

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/stretchr/testify/require"
)

// residualFormats are those of the test device in which a pool has a recent window.
func residualFormats(act backend.DType) []backend.Format {
	var out []backend.Format
	for _, f := range testDevice().Caps.Formats {
		switch (backend.Format{Act: act, K: f.K, V: f.V}) {
		case backend.Format{Act: f.Act, K: backend.Int8, V: backend.Int8}, backend.Format{Act: f.Act, K: backend.Int8, V: backend.Int4},
			backend.Format{Act: f.Act, K: backend.Int4Channel, V: backend.Int4}, backend.Format{Act: f.Act, K: backend.FP8E4M3, V: backend.FP8E4M3},
			backend.Format{Act: f.Act, K: backend.Int4Channel, V: backend.Int8}:
			out = append(out, f)
		}
	}
	return out
}

// residualConfig has a window of a block and a half.
func residualConfig(f backend.Format) Config {
	cfg := quantizedConfig(Paged, f)
	cfg.BlockSize, cfg.Residual, cfg.StepTokens, cfg.Capacity = 4, 6, 40, 80
	if testDevice().BlockSizes != nil {
		cfg.BlockSize, cfg.Residual, cfg.Capacity = 16, 24, 160
	}
	return cfg
}

// bothTiers are all tokens of a sequence in a layer, the quantized ones as they read.
func (r *rig[B]) bothTiers(s backend.Stream, seq *Sequence[B], layer int) past {
	r.t.Helper()
	c := r.pool.Config()
	older, newer := r.tier(s, r.pool, seq, layer), r.tier(s, r.pool.recent, seq.recent, layer)
	all := past{n: older.n + newer.n}
	for h := range c.KVHeads {
		for _, p := range []past{older, newer} {
			all.k = append(all.k, p.k[h*p.n*c.HeadDim:][:p.n*c.HeadDim]...)
			all.v = append(all.v, p.v[h*p.n*c.VHeadDim:][:p.n*c.VHeadDim]...)
		}
	}
	return all
}

func (r *rig[B]) tier(s backend.Stream, p *Pool[B], seq *Sequence[B], layer int) past {
	r.t.Helper()
	c := p.cfg
	out := past{seq.len, make([]float32, c.KVHeads*seq.len*c.HeadDim), make([]float32, c.KVHeads*seq.len*c.VHeadDim)}
	if seq.len == 0 {
		return out
	}
	require.NoError(r.t, seq.fence.Order(s))
	table, err := backend.AllocFrom(r.be, s, backend.U32, seq.Blocks(nil))
	require.NoError(r.t, err)
	k, err := r.be.Alloc(backend.F32, len(out.k))
	require.NoError(r.t, err)
	v, err := r.be.Alloc(backend.F32, len(out.v))
	require.NoError(r.t, err)
	require.NoError(r.t, r.be.Gather(s, backend.GatherParams[B]{Cache: p.layers[layer].view, Table: backend.Some(table), Len: seq.len, K: backend.Some(k), V: backend.Some(v)}))
	require.NoError(r.t, backend.Download(r.be, s, out.k, k, 0))
	require.NoError(r.t, backend.Download(r.be, s, out.v, v, 0))
	r.free(table, k, v)
	return out
}

// tiered is what a model remembers of a sequence: its tokens, and how often each was
// quantized since it was written.
type tiered struct {
	ids    []uint32
	rounds []int
	sealed int // leading tokens in the quantized tier
}

// settled follows what a plan did to n tokens of a sequence: it quantizes whole blocks as
// they leave the window, after it has brought back a block that is not full.
func (w *tiered) settled(t require.TestingT, seq *Sequence[buffer], planned bool) {
	c := seq.pool.cfg
	full := w.sealed / c.BlockSize * c.BlockSize
	if seq.len != w.sealed {
		require.Zero(t, seq.len%c.BlockSize, "blocks are quantized whole")
		for i := full; i < seq.len; i++ {
			w.rounds[i]++
		}
		w.sealed = seq.len
	}
	require.Equal(t, len(w.ids), seq.Len())
	if recent := len(w.ids) - w.sealed; planned {
		require.Zero(t, w.sealed%c.BlockSize)
		require.GreaterOrEqual(t, recent, min(len(w.ids)-full, c.Residual), "the window")
		require.Less(t, recent, c.Residual+c.BlockSize, "what has left the window is quantized")
	}
}

// expectTiers reads both tiers: exact what was never quantized, else within its bound.
func (r *rig[B]) expectTiers(s backend.Stream, seq *Sequence[B], w *tiered) {
	r.t.Helper()
	c := r.pool.Config()
	require.Equal(r.t, len(w.ids), seq.Len())
	require.Equal(r.t, len(w.ids), seq.Next())
	for l := range c.Layers {
		got := r.bothTiers(s, seq, l)
		want := pastOf(c, l, w.ids)
		compare := func(what string, want, got []float32, dt backend.DType, dim int) {
			for i, x := range want {
				token := i / dim % len(w.ids)
				within := 1.15 * rounding(dt) * float64(w.rounds[token])
				if !(math.Abs(float64(x-got[i])) <= within) {
					require.Fail(r.t, what, fmt.Sprintf("layer %d, element %d, token %d of %d, %d of them quantized: %v, want %v within %v", l, i, token, len(w.ids), seq.len, got[i], x, within))
				}
			}
		}
		compare("key", want.k, got.k, c.K, c.HeadDim)
		compare("value", want.v, got.v, c.V, c.VHeadDim)
	}
}
