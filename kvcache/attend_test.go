package kvcache

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/stretchr/testify/require"
)

// testFormats are the formats of plain numbers that the test device lists, K and V alike.
func testFormats() []backend.Format {
	var out []backend.Format
	for _, f := range testDevice().Caps.Formats {
		if f.K.Float() && f.K == f.V {
			out = append(out, f)
		}
	}
	return out
}

// attention is what a step should give, in float64.
type attention struct {
	out, lse []float64 // [tokens, query heads, V dim], [tokens, query heads]
	mass     []float64 // [blocks, KV heads, block]
	mask     Mask
}

// past is what a layer has of a sequence: keys and values [KV heads, tokens, dim].
type past struct {
	n    int
	k, v []float32
}

// pastOf is the layer of tokens that are stored exactly.
func pastOf(c Config, layer int, ids []uint32) past {
	p := past{n: len(ids)}
	for h := range c.Model.KVHeads {
		for _, id := range ids {
			for d := range c.Model.HeadDim {
				p.k = append(p.k, element(id, layer, h, d, false))
			}
			for d := range c.Model.VHeadDim {
				p.v = append(p.v, element(id, layer, h, d, true))
			}
		}
	}
	return p
}

// gathered is a layer as it is stored.
func (r *rig[B]) gathered(seq *Sequence[B], layer int) past {
	r.t.Helper()
	c, n := r.pool.Config(), seq.Len()
	k, err := r.be.Alloc(backend.F32, c.Model.KVHeads*n*c.Model.HeadDim)
	require.NoError(r.t, err)
	v, err := r.be.Alloc(backend.F32, c.Model.KVHeads*n*c.Model.VHeadDim)
	require.NoError(r.t, err)
	require.NoError(r.t, seq.Gather(r.s, layer, k, v))
	p := past{n, r.download(k), r.download(v)}
	r.free(k, v)
	return p
}

// add is the attention of one more query row, of query head h, over the first tokens of
// a past. slots are their places in the cache.
func (a *attention) add(c Config, q []float32, h int, p past, seen int, slots []int) {
	kv := h * c.Model.KVHeads / c.Model.QHeads
	scores, top := make([]float64, seen), math.Inf(-1)
	for i := range seen {
		for d, k := range p.k[(kv*p.n+i)*c.Model.HeadDim:][:c.Model.HeadDim] {
			scores[i] += float64(k) * float64(q[d]) * float64(c.Model.Scale)
		}
		if m := float64(a.mask.SoftCap); m > 0 {
			scores[i] = m * math.Tanh(scores[i]/m)
		}
		if len(a.mask.ALiBi) > 0 {
			scores[i] += float64(a.mask.ALiBi[h]) * float64(i-seen+1)
		}
		if a.mask.Window > 0 && i+a.mask.Window < seen && i >= a.mask.SinkTokens {
			scores[i] = math.Inf(-1)
		}
		top = max(top, scores[i])
	}
	sum := 0.0
	if len(a.mask.SinkLogits) > 0 {
		sum = math.Exp(float64(a.mask.SinkLogits[h]) - top)
	}
	for i := range scores {
		scores[i] = math.Exp(scores[i] - top)
		sum += scores[i]
	}
	row := make([]float64, c.Model.VHeadDim)
	for i := range seen {
		for d, v := range p.v[(kv*p.n+i)*c.Model.VHeadDim:][:c.Model.VHeadDim] {
			row[d] += scores[i] / sum * float64(v)
		}
		if slots != nil {
			a.mass[slots[i]+kv*c.BlockTokens()] += scores[i] / sum
		}
	}
	a.out, a.lse = append(a.out, row...), append(a.lse, top+math.Log(sum))
}

// A step of decode, verification and prefill side by side, over shared blocks and
// copied ones, attends as float64 does: output, log-sum-exp and mass, in every
// format of the device.
func TestStepAttention(t *testing.T) {
	for _, f := range testFormats() {
		for _, dims := range [][2]int{{128, 128}, {192, 128}} {
			for _, layout := range []Layout{Contiguous, Paged} {
				t.Run(fmt.Sprintf("%v-%v/%dx%d/%s", f.Act, f.K, dims[0], dims[1], layout), func(t *testing.T) {
					cfg := small(layout)
					cfg.Model.Act, cfg.Storage.K, cfg.Storage.V, cfg.Model.HeadDim, cfg.Model.VHeadDim, cfg.Memory.Capacity = f.Act, f.K, f.V, dims[0], dims[1], 60
					cfg.Model.QHeads = 8 // 84 rows of a KV head: a GPU's kernel for whole tiles of prompts
					if layout == Paged {
						cfg.Memory.BlockSize = 16
					}
					attendStep(t, cfg, 1)
				})
			}
		}
	}
}

// attendStep checks the attention of one layer, with keys and values as they are stored,
// and returns output and what it would be had they been stored exactly.
func attendStep(t *testing.T, cfg Config, layer int) (got []float32, exact []float64) {
	r := deviceRig(t, cfg)
	c := r.pool.Config()
	root, other := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{root, sequence(1, 33)}, feed[buffer]{other, sequence(200, 17)}))
	child, err := root.Fork()
	require.NoError(t, err)
	feeds := []feed[buffer]{{root, sequence(40, 1)}, {child, sequence(50, 3)}, {other, sequence(300, 21)}}
	before := [][]uint32{sequence(1, 33), sequence(1, 33), sequence(200, 17)}

	r.step.AccumulateScores(true)
	require.NoError(t, r.plan(r.s, feeds...))
	tokens := 1 + 3 + 21
	queries := rows(sequence(1000, tokens), 0, c.Model.QHeads, c.Model.HeadDim, false)
	q, out := r.vector(r.s, queries), r.vector(r.s, make([]float32, tokens*c.Model.QHeads*c.Model.VHeadDim))
	r.writeWith(r.s, map[int]buffer{layer: q}, feeds...)
	lse, err := r.be.Alloc(backend.F32, tokens*c.Model.QHeads)
	require.NoError(t, err)
	mass, err := r.be.Alloc(backend.F32, c.Memory.Blocks*c.Model.KVHeads*c.BlockTokens())
	require.NoError(t, err)
	require.NoError(t, r.be.Fill(r.s, mass, 0, mass.Len(), 0))
	require.NoError(t, r.step.Attend(layer, attendingTo(backend.Dense(q), backend.Outputs[buffer]{Rows: backend.Dense(out), LSE: backend.Some(lse), Scores: backend.Some(mass)})))
	require.NoError(t, r.step.Commit())

	want, plain := attention{mass: make([]float64, mass.Len())}, attention{mass: make([]float64, mass.Len())}
	for i, f := range feeds {
		all, blocks := slices.Concat(before[i], f.ids), f.seq.Blocks(nil)
		var slots []int
		for p := range all {
			slots = append(slots, int(blocks[p/c.BlockTokens()])*c.Model.KVHeads*c.BlockTokens()+p%c.BlockTokens())
		}
		stored, exact := r.gathered(f.seq, layer), pastOf(c, layer, all)
		for p := len(before[i]); p < len(all); p++ {
			for h := range c.Model.QHeads {
				row := len(want.lse) // token by token, head by head
				q := queries[row*c.Model.HeadDim:][:c.Model.HeadDim]
				want.add(c, q, h, stored, p+1, slots)
				plain.add(c, q, h, exact, p+1, slots)
			}
		}
	}
	bounds := map[backend.DType]float64{backend.F32: 1e-5, backend.F16: 2e-3, backend.BF16: 1e-2}
	got = r.download(out)
	requireNear(t, "output", want.out, got, bounds[c.Model.Act])
	requireNear(t, "log-sum-exp", want.lse, r.download(lse), 1e-4)
	requireNear(t, "mass", want.mass, r.download(mass), bounds[c.Model.Act])

	r.free(q, out, lse, mass)
	require.NoError(t, errors.Join(root.Release(), child.Release(), other.Release()))
	r.close()
	return got, plain.out
}

// download is all of b as f32.
func (r *rig[B]) download(b B) []float32 {
	r.t.Helper()
	out := make([]float32, b.Len())
	if b.DType() == backend.F32 {
		require.NoError(r.t, backend.Download(r.be, r.s, out, b, 0))
		return out
	}
	decode := quant.FromF16
	if b.DType() == backend.BF16 {
		decode = quant.FromBF16
	}
	half := make([]uint16, b.Len())
	require.NoError(r.t, backend.Download(r.be, r.s, half, b, 0))
	for i, h := range half {
		out[i] = decode(h)
	}
	return out
}

// requireNear compares ‖got − want‖ with ‖want‖.
func requireNear(t require.TestingT, what string, want []float64, got []float32, bound float64) {
	require.Len(t, got, len(want), what)
	require.LessOrEqual(t, distance(want, got), bound, what) // false for NaN, too
}

// distance is ‖got − want‖ / ‖want‖.
func distance(want []float64, got []float32) float64 {
	var off, norm float64
	for i, w := range want {
		d := float64(got[i]) - w
		off, norm = off+d*d, norm+w*w
	}
	if off == 0 {
		return 0
	}
	return math.Sqrt(off / norm)
}
