package kvcache

import (
	"fmt"
	"math"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/stretchr/testify/require"
)

// windowFormats are those of the test device in which a pool has a recent window.
func windowFormats(act backend.DType) []backend.Format {
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

// windowConfig has a window of a block and a half.
func windowConfig(f backend.Format) Config {
	cfg := quantizedConfig(Paged, f)
	cfg.Memory.BlockSize, cfg.Storage.Residual, cfg.Memory.StepTokens, cfg.Memory.Capacity = 4, 6, 40, 80
	if testDevice().BlockSizes != nil {
		cfg.Memory.BlockSize, cfg.Storage.Residual, cfg.Memory.Capacity = 16, 24, 160
	}
	return cfg
}

// inStore are a sequence's tokens from one on as they read in a store.
func (r *rig[B]) inStore(s backend.Stream, st *store.Store[B], g *store.Segment, seq *Sequence[B], layer, from, to int) past {
	r.t.Helper()
	c, n := r.pool.cfg, to-from
	out := past{n, make([]float32, c.Model.KVHeads*n*c.Model.HeadDim), make([]float32, c.Model.KVHeads*n*c.Model.VHeadDim)}
	if n == 0 {
		return out
	}
	require.NoError(r.t, seq.runs.In[0].Fence.Order(s))
	var ids []uint32
	for _, b := range g.Blocks {
		ids = append(ids, b.ID)
	}
	table, err := backend.AllocFrom(r.be, s, backend.U32, ids)
	require.NoError(r.t, err)
	k, err := r.be.Alloc(backend.F32, len(out.k))
	require.NoError(r.t, err)
	v, err := r.be.Alloc(backend.F32, len(out.v))
	require.NoError(r.t, err)
	require.NoError(r.t, r.be.Gather(s, backend.GatherParams[B]{Cache: st.Layers[layer].View, Table: backend.Some(table),
		Begin: from - g.From*c.Memory.BlockSize, Len: n, K: backend.Some(k), V: backend.Some(v)}))
	require.NoError(r.t, backend.Download(r.be, s, out.k, k, 0))
	require.NoError(r.t, backend.Download(r.be, s, out.v, v, 0))
	r.free(table, k, v)
	return out
}

// quantized are the tokens of a sequence that lie in the kept store.
func (r *rig[B]) quantized(s backend.Stream, seq *Sequence[B], layer int) past {
	r.t.Helper()
	n := min(len(seq.runs.In[0].Kept.Blocks)*r.pool.cfg.Memory.BlockSize, seq.Len())
	return r.inStore(s, r.pool.parts.All[0].Kept, seq.runs.In[0].Kept, seq, layer, 0, n)
}

// recent are the tokens of a sequence that lie in the written store.
func (r *rig[B]) recent(s backend.Stream, seq *Sequence[B], layer int) past {
	r.t.Helper()
	from := min(seq.runs.In[0].Written.From*r.pool.cfg.Memory.BlockSize, seq.Len())
	return r.inStore(s, r.pool.parts.All[0].Written, seq.runs.In[0].Written, seq, layer, from, seq.Len())
}

// joined is the first n tokens of older and those of recent behind them, of which the last is token end−1.
func joined(c Config, older, recent past, n, end int) past {
	out := past{n: end}
	for h := range c.Model.KVHeads {
		for _, of := range []struct {
			p        past
			from, to int
		}{{older, 0, n}, {recent, n - (end - recent.n), recent.n}} {
			out.k = append(out.k, of.p.k[(h*of.p.n+of.from)*c.Model.HeadDim:(h*of.p.n+of.to)*c.Model.HeadDim]...)
			out.v = append(out.v, of.p.v[(h*of.p.n+of.from)*c.Model.VHeadDim:(h*of.p.n+of.to)*c.Model.VHeadDim]...)
		}
	}
	return out
}

// remembered is what a model knows of a sequence in two stores: its tokens, and how often each was
// quantized since it was written, in each store.
type remembered struct {
	ids          []uint32
	pos, turns   []int // of keys: where they are, and by how much they were turned to be there
	next         int
	kept, fresh  []int
	sealed, gone int // blocks: those in the kept store, and the first ones that are not in the written one
}

// step follows a committed step of new tokens.
func (w *remembered) step(c Config, ids []uint32) {
	before, after := len(w.ids), len(w.ids)+len(ids)
	for i := min(c.Edge(before), w.gone) * c.Memory.BlockSize; i < min(w.gone*c.Memory.BlockSize, before); i++ {
		w.fresh[i] = w.kept[i]
	}
	w.gone = min(w.gone, c.Edge(before))
	w.ids = append(w.ids[:before:before], ids...)
	w.kept, w.fresh = append(w.kept[:before:before], make([]int, len(ids))...), append(w.fresh[:before:before], make([]int, len(ids))...)
	w.pos, w.turns = append(w.pos[:before:before], make([]int, len(ids))...), append(w.turns[:before:before], make([]int, len(ids))...)
	for i := range ids {
		w.pos[before+i] = w.next + i
	}
	w.next += len(ids)
	w.sealed = min(w.sealed, before/c.Memory.BlockSize)
	for edge := c.Edge(after - 1); w.sealed < edge; w.sealed++ {
		for i := range c.Memory.BlockSize {
			w.kept[w.sealed*c.Memory.BlockSize+i] = w.fresh[w.sealed*c.Memory.BlockSize+i] + 1
		}
	}
	w.gone = max(w.gone, c.Edge(after-1-c.Memory.BlockSize))
}

func (w *remembered) truncate(c Config, n int) {
	blocks := c.BlocksOf(n)
	w.ids, w.sealed, w.gone = w.ids[:n], min(w.sealed, blocks), min(w.gone, blocks)
	w.kept, w.fresh = append([]int(nil), w.kept[:n]...), append([]int(nil), w.fresh[:n]...)
	w.pos, w.turns = append([]int(nil), w.pos[:n]...), append([]int(nil), w.turns[:n]...)
	if w.next = 0; n > 0 {
		w.next = w.pos[n-1] + 1
	}
}

// keep follows a Keep, or a Shift, after which the tokens that are named are at other positions. Where
// they lie is the sequence's to say.
func (w *remembered) keep(c Config, seq *Sequence[buffer], kept []int, to func(i int) int) {
	n := &remembered{next: w.next, sealed: len(seq.runs.In[0].Kept.Blocks), gone: seq.runs.In[0].Written.From}
	for i, token := range kept {
		rounds := w.fresh[token]
		if token < w.gone*c.Memory.BlockSize {
			rounds = w.kept[token]
		}
		again := rounds + 1
		if token < w.sealed*c.Memory.BlockSize {
			again = max(again, w.kept[token])
		}
		n.ids, n.fresh, n.kept = append(n.ids, w.ids[token]), append(n.fresh, rounds), append(n.kept, again)
		n.pos, n.turns = append(n.pos, to(i)), append(n.turns, w.turns[token]+to(i)-w.pos[token])
	}
	*w = *n
}

func (w *remembered) clone() *remembered {
	c := *w
	c.kept, c.fresh = append([]int(nil), w.kept...), append([]int(nil), w.fresh...)
	return &c
}

// matches compares where a sequence's tokens lie.
func (w *remembered) matches(t require.TestingT, seq *Sequence[buffer]) {
	require.Equal(t, len(w.ids), seq.Len())
	require.Equal(t, w.next, seq.NextPosition())
	require.Len(t, seq.runs.In[0].Kept.Blocks, w.sealed)
	require.Equal(t, w.gone, seq.runs.In[0].Written.From)
}

// expectWindow reads both stores: exact what was never quantized, else within its bound.
func (r *rig[B]) expectWindow(s backend.Stream, seq *Sequence[B], w *remembered) {
	r.t.Helper()
	c := r.pool.Config()
	require.Equal(r.t, len(w.ids), seq.Len())
	for l := range c.Model.Layers {
		want := pastOf(c, l, w.ids)
		for h := range c.Model.KVHeads {
			for i, id := range w.ids {
				if w.turns[i] == 0 {
					continue
				}
				for d, x := range (token{id, w.turns[i]}).key(l, h, c.Model.HeadDim) {
					want.k[(h*len(w.ids)+i)*c.Model.HeadDim+d] = float32(x)
				}
			}
		}
		f := c.FormatOf(l)
		compare := func(what string, want, got []float32, dt backend.DType, from, tokens, dim int, rounds []int) {
			for i, x := range got {
				head, token := i/dim/tokens, from+i/dim%tokens
				x -= want[(head*len(w.ids)+token)*dim+i%dim]
				within := 1.15 * rounding(dt) * float64(rounds[token])
				if w.turns[token] != 0 && strings.HasSuffix(what, "key") {
					within = 2*within + 1e-5 // a channel may be larger than 1 now, by the other one of its pair
				}
				if c.HadamardOf(l) && strings.HasSuffix(what, "key") {
					within = 2*within*math.Sqrt(float64(dim)) + 1e-6 // channels are up to that much larger
				}
				if !(math.Abs(float64(x)) <= within) {
					require.Fail(r.t, what, fmt.Sprintf("layer %d, element %d, token %d of %d, quantized %d times: off by %v, bound %v", l, i, token, len(w.ids), rounds[token], x, within))
				}
			}
		}
		older, recent := r.quantized(s, seq, l), r.recent(s, seq, l)
		if len(w.ids) > 0 {
			whole := joined(c, older, recent, min(w.gone*c.Memory.BlockSize, len(w.ids)), len(w.ids))
			k, err := r.be.Alloc(backend.F32, len(whole.k))
			require.NoError(r.t, err)
			v, err := r.be.Alloc(backend.F32, len(whole.v))
			require.NoError(r.t, err)
			require.NoError(r.t, seq.Gather(s, l, k, v))
			require.NoError(r.t, s.Sync())
			require.Equal(r.t, whole.k, r.download(k))
			require.Equal(r.t, whole.v, r.download(v))
			r.free(k, v)
		}
		require.Equal(r.t, len(w.ids), max(older.n, recent.n+w.gone*c.Memory.BlockSize*min(recent.n, 1)))
		compare("quantized key", want.k, older.k, f.K, 0, older.n, c.Model.HeadDim, w.kept)
		compare("quantized value", want.v, older.v, f.V, 0, older.n, c.Model.VHeadDim, w.kept)
		compare("recent key", want.k, recent.k, f.K, len(w.ids)-recent.n, recent.n, c.Model.HeadDim, w.fresh)
		compare("recent value", want.v, recent.v, f.V, len(w.ids)-recent.n, recent.n, c.Model.VHeadDim, w.fresh)
	}
}
