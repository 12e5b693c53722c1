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
}

// add is the attention of one more query row, of query head h, over the tokens seen.
// slots are their places in the cache.
func (a *attention) add(c Config, q []float32, h int, seen []uint32, slots []int) {
	kv := h * c.KVHeads / c.QHeads
	scores, top := make([]float64, len(seen)), math.Inf(-1)
	for i, id := range seen {
		for d, k := range (token{id: id}).key(1, kv, c.HeadDim) {
			scores[i] += k * float64(q[d]) * float64(c.Scale)
		}
		top = max(top, scores[i])
	}
	sum := 0.0
	for i := range scores {
		scores[i] = math.Exp(scores[i] - top)
		sum += scores[i]
	}
	row := make([]float64, c.VHeadDim)
	for i, id := range seen {
		for d := range row {
			row[d] += scores[i] / sum * float64(element(id, 1, kv, d, true))
		}
		a.mass[slots[i]+kv*c.slots()] += scores[i] / sum
	}
	a.out, a.lse = append(a.out, row...), append(a.lse, top+math.Log(sum))
}

// A step of decode, verification and prefill side by side, over shared blocks and
// copied ones, attends as float64 does: output, log-sum-exp and mass, in every
// format of the device.
func TestStepAttention(t *testing.T) {
	for _, f := range testFormats() {
		for _, dims := range [][2]int{{64, 64}, {192, 128}} {
			for _, layout := range []Layout{Contiguous, Paged} {
				t.Run(fmt.Sprintf("%v-%v/%dx%d/%s", f.Act, f.K, dims[0], dims[1], layout), func(t *testing.T) {
					cfg := small(layout)
					cfg.Act, cfg.K, cfg.V, cfg.HeadDim, cfg.VHeadDim, cfg.Capacity = f.Act, f.K, f.V, dims[0], dims[1], 60
					if layout == Paged {
						cfg.BlockSize = 16
					}
					attendStep(t, cfg)
				})
			}
		}
	}
}

func attendStep(t *testing.T, cfg Config) {
	r := deviceRig(t, cfg)
	c := r.pool.Config()
	root, other := r.open(), r.open()
	require.NoError(t, r.feed(feed[buffer]{root, sequence(1, 33)}, feed[buffer]{other, sequence(200, 17)}))
	child, err := root.Fork()
	require.NoError(t, err)
	feeds := []feed[buffer]{{root, sequence(40, 1)}, {child, sequence(50, 3)}, {other, sequence(300, 21)}}
	before := [][]uint32{sequence(1, 33), sequence(1, 33), sequence(200, 17)}

	r.step.AccumulateMass(true)
	require.NoError(t, r.plan(r.s, feeds...))
	r.write(r.s, feeds...)
	tokens := 1 + 3 + 21
	queries := rows(sequence(1000, tokens), 0, c.QHeads, c.HeadDim, false)
	q, out := r.vector(r.s, queries), r.vector(r.s, make([]float32, tokens*c.QHeads*c.VHeadDim))
	lse, err := r.be.Alloc(backend.F32, tokens*c.QHeads)
	require.NoError(t, err)
	mass, err := r.be.Alloc(backend.F32, c.Blocks*c.KVHeads*c.slots())
	require.NoError(t, err)
	require.NoError(t, r.be.Fill(r.s, mass, 0, mass.Len(), 0))
	require.NoError(t, r.step.AttendTo(1, backend.Dense(q), backend.Outputs[buffer]{Rows: backend.Dense(out), LSE: backend.Some(lse), Mass: backend.Some(mass)}))
	require.NoError(t, r.step.Commit())

	want := attention{mass: make([]float64, mass.Len())}
	for i, f := range feeds {
		all, blocks := slices.Concat(before[i], f.ids), f.seq.Blocks(nil)
		var slots []int
		for p := range all {
			slots = append(slots, int(blocks[p/c.slots()])*c.KVHeads*c.slots()+p%c.slots())
		}
		for p := len(before[i]); p < len(all); p++ {
			for h := range c.QHeads {
				row := len(want.lse) // token by token, head by head
				want.add(c, queries[row*c.HeadDim:][:c.HeadDim], h, all[:p+1], slots)
			}
		}
	}
	bounds := map[backend.DType]float64{backend.F32: 1e-5, backend.F16: 2e-3, backend.BF16: 1e-2}
	requireNear(t, "output", want.out, r.download(out), bounds[c.Act])
	requireNear(t, "log-sum-exp", want.lse, r.download(lse), 1e-4)
	requireNear(t, "mass", want.mass, r.download(mass), bounds[c.Act])

	r.free(q, out, lse, mass)
	require.NoError(t, errors.Join(root.Release(), child.Release(), other.Release()))
	r.close()
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
func requireNear(t *testing.T, what string, want []float64, got []float32, bound float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	var off, norm float64
	for i, w := range want {
		d := float64(got[i]) - w
		off, norm = off+d*d, norm+w*w
	}
	require.LessOrEqual(t, math.Sqrt(off), bound*math.Sqrt(norm), what) // false for NaN, too
}
