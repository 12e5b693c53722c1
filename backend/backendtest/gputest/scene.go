package gputest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// scene is an attention call whose plan the test makes.
type scene[B launch.Buffer] struct {
	*step[B]
	t     testing.TB
	table []uint32 // whose rows begin alike
}

// newScene is a batch with items of every kind that the types have: decode, verify
// and prefill, and a sequence with nothing to see, over two KV heads of two query heads.
func newScene[B launch.Buffer](t testing.TB, be backend.Backend[B], f backend.Format, see plan.Visibility) *scene[B] {
	c := &scene[B]{step: &step[B]{be: be}, t: t}
	var err error
	c.s, err = be.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.s.Close()) })
	const blocks, block, dim, kvHeads, qHeads = 50, 16, 64, 2, 4
	c.shape = backend.AttendShape{QHeads: qHeads, KVHeads: kvHeads, KDim: dim, VDim: dim, BlockSize: block, Format: f, Scores: true,
		ContextLens: []uint32{300, 600, 280, 0}, QueryLens: []uint32{1, 5, 20, 1},
		NonCausal: see.NonCausal, Window: see.Window, SinkTokens: see.SinkTokens, Part: see.Part, Residual: see.Residual}
	const tokens, stride, common = 27, 38, 16
	rng := rand.New(rand.NewPCG(1, 2))
	for range c.shape.ContextLens { // blocks are shared: only the mass is the worse for it
		row := len(c.table)
		for _, id := range rng.Perm(blocks)[:stride] {
			c.table = append(c.table, uint32(id))
		}
		copy(c.table[row:], c.table[:common])
	}
	stored := f
	if f.K.Quantized() {
		stored.K, stored.V = f.Act, f.Act
	}
	cache := backend.CacheView[B]{Blocks: blocks, KVHeads: kvHeads, BlockSize: block,
		K: backend.Plane[B]{Data: c.random(rng, stored.K, blocks*block*kvHeads*dim), Dim: dim},
		V: backend.Plane[B]{Data: c.random(rng, stored.V, blocks*block*kvHeads*dim), Dim: dim}}
	if f.K.Quantized() {
		cache = c.packed(cache, f)
	}
	c.attend = backend.AttendParams[B]{Cache: cache, Q: backend.Dense(c.random(rng, f.Act, tokens*qHeads*dim)), QHeads: qHeads, Scale: 0.125,
		Mask: backend.Mask[B]{NonCausal: see.NonCausal, Window: see.Window, SinkTokens: see.SinkTokens,
			Part: see.Part, Residual: see.Residual, SinkLogits: backend.Some(c.random(rng, backend.F32, qHeads))},
		Batch: backend.Ragged[B]{Seqs: 4, Tokens: tokens, Table: backend.Some(c.words(c.table)), TableStride: stride,
			ContextLens: c.words(c.shape.ContextLens), QueryOffsets: backend.Some(c.words([]uint32{0, 1, 6, 26, 27}))},
		Out: backend.Outputs[B]{Rows: backend.Dense(c.alloc(f.Act, tokens*qHeads*dim)), LSE: backend.Some(c.alloc(backend.F32, tokens*qHeads)),
			Scores: backend.Some(c.alloc(backend.F32, blocks*kvHeads*block))}}
	return c
}

// share makes plans read once what the sequences have in common.
func (c *scene[B]) share() {
	c.shape.Table, c.shape.TableStride, c.shape.MinShared = c.table, c.attend.Batch.TableStride, 64
}

// packed is a cache in the types of f.
func (c *scene[B]) packed(from backend.CacheView[B], f backend.Format) backend.CacheView[B] {
	plane := func(dt backend.DType, of backend.Plane[B]) backend.Plane[B] {
		words, n, _ := dt.Scales(from.Blocks, from.KVHeads, from.BlockSize, of.Dim)
		p := backend.Plane[B]{Data: c.alloc(dt, of.Data.Len()), Dim: of.Dim, Scales: backend.Some(c.alloc(words, n))}
		if n == from.KVHeads { // which the caller sets
			require.NoError(c.t, c.be.Fill(c.s, p.Scales.Buf, 0, n, 0.02))
		}
		return p
	}
	to := from
	to.K, to.V = plane(f.K, from.K), plane(f.V, from.V)
	var pairs []uint32
	for i := range uint32(from.Blocks) {
		pairs = append(pairs, i, i)
	}
	require.NoError(c.t, c.be.ConvertBlocks(c.s, backend.ConvertBlocksParams[B]{From: from, To: to, Pairs: c.words(pairs), N: from.Blocks}))
	require.NoError(c.t, c.s.Sync())
	return to
}

func (c *scene[B]) alloc(dt backend.DType, n int) B {
	b, err := c.be.Alloc(dt, n)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { require.NoError(c.t, c.be.Free(b)) })
	return b
}

func (c *scene[B]) words(v []uint32) B {
	b := c.alloc(backend.U32, len(v))
	require.NoError(c.t, backend.Upload(c.be, c.s, b, 0, v))
	return b
}

// random is n values of the standard normal distribution.
func (c *scene[B]) random(rng *rand.Rand, dt backend.DType, n int) B {
	b, wide, half := c.alloc(dt, n), make([]float32, n), make([]uint16, n)
	for i := range wide {
		wide[i] = float32(rng.NormFloat64())
		if half[i] = quant.F16(wide[i]); dt == backend.BF16 {
			half[i] = quant.BF16(wide[i])
		}
	}
	if dt == backend.F32 {
		require.NoError(c.t, backend.Upload(c.be, c.s, b, 0, wide))
	} else {
		require.NoError(c.t, backend.Upload(c.be, c.s, b, 0, half))
	}
	return b
}

// floats is what a buffer holds.
func (c *scene[B]) floats(b B) []float32 {
	wide, half := make([]float32, b.Len()), make([]uint16, b.Len())
	if b.DType() == backend.F32 {
		require.NoError(c.t, backend.Download(c.be, c.s, wide, b, 0))
		return wide
	}
	require.NoError(c.t, backend.Download(c.be, c.s, half, b, 0))
	for i, bits := range half {
		if wide[i] = quant.FromF16(bits); b.DType() == backend.BF16 {
			wide[i] = quant.FromBF16(bits)
		}
	}
	return wide
}

// call is the call with a plan for a device of that capacity.
func (c *scene[B]) call(blocks int) backend.AttendParams[B] {
	p, err := plan.Attend(c.shape, plan.Capacity{blocks, blocks, blocks}.Resident)
	require.NoError(c.t, err)
	call := c.attend
	call.Plan, call.Work = p, backend.Some(c.words(p.Work))
	call.Workspace = backend.Some(c.alloc(backend.F32, p.Workspace))
	for _, b := range []B{call.Out.Rows.Buf, call.Out.LSE.Buf, call.Workspace.Buf} {
		require.NoError(c.t, c.be.Fill(c.s, b, 0, b.Len(), math.NaN()))
	}
	require.NoError(c.t, c.be.Fill(c.s, call.Out.Scores.Buf, 0, call.Out.Scores.Buf.Len(), 0))
	return call
}

// result is what a call wrote.
type result struct{ rows, lse, mass []float32 }

func (c *scene[B]) run(call backend.AttendParams[B]) result {
	require.NoError(c.t, c.be.Attend(c.s, call))
	return result{c.floats(call.Out.Rows.Buf), c.floats(call.Out.LSE.Buf), c.floats(call.Out.Scores.Buf)}
}
