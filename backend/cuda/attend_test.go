//go:build linux && cgo && !nocuda

package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// scene is an attention call whose plan the test makes.
type scene struct {
	*step[*Buffer]
	t testing.TB
}

// newScene is a batch with items of every kind that the types have: decode, verify
// and prefill, and a sequence with nothing to see, over two KV heads of two query heads.
func newScene(t testing.TB, be *Backend, f backend.Format, see plan.Visibility) *scene {
	c := &scene{step: &step[*Buffer]{be: be}, t: t}
	var err error
	c.s, err = be.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.s.Close()) })
	const blocks, block, dim, kvHeads, qHeads = 50, 16, 64, 2, 4
	c.shape = backend.AttendShape{QHeads: qHeads, KVHeads: kvHeads, KDim: dim, VDim: dim, BlockSize: block, Format: f, Mass: true,
		ContextLens: []uint32{300, 600, 280, 0}, QueryLens: []uint32{1, 5, 20, 1},
		NonCausal: see.NonCausal, Window: see.Window, SinkTokens: see.SinkTokens}
	const tokens, stride = 27, 38
	rng := rand.New(rand.NewPCG(1, 2))
	var table []uint32
	for range c.shape.ContextLens { // blocks are shared: only the mass is the worse for it
		for _, id := range rng.Perm(blocks)[:stride] {
			table = append(table, uint32(id))
		}
	}
	cache := backend.CacheView[*Buffer]{Blocks: blocks, KVHeads: kvHeads, BlockSize: block,
		K: backend.Plane[*Buffer]{Data: c.random(rng, f.K, blocks*block*kvHeads*dim), Dim: dim},
		V: backend.Plane[*Buffer]{Data: c.random(rng, f.V, blocks*block*kvHeads*dim), Dim: dim}}
	c.attend = backend.AttendParams[*Buffer]{Cache: cache, Q: backend.Dense(c.random(rng, f.Act, tokens*qHeads*dim)), QHeads: qHeads, Scale: 0.125,
		Mask: backend.Mask[*Buffer]{NonCausal: see.NonCausal, Window: see.Window, SinkTokens: see.SinkTokens,
			SinkLogits: backend.Some(c.random(rng, backend.F32, qHeads))},
		Batch: backend.Ragged[*Buffer]{Seqs: 4, Tokens: tokens, Table: backend.Some(c.words(table)), TableStride: stride,
			ContextLens: c.words(c.shape.ContextLens), QueryOffsets: backend.Some(c.words([]uint32{0, 1, 6, 26, 27}))},
		Out: backend.Outputs[*Buffer]{Rows: backend.Dense(c.alloc(f.Act, tokens*qHeads*dim)), LSE: backend.Some(c.alloc(backend.F32, tokens*qHeads)),
			Mass: backend.Some(c.alloc(backend.F32, blocks*kvHeads*block))}}
	return c
}

func (c *scene) alloc(dt backend.DType, n int) *Buffer {
	b, err := c.be.Alloc(dt, n)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { require.NoError(c.t, c.be.Free(b)) })
	return b
}

func (c *scene) words(v []uint32) *Buffer {
	b := c.alloc(backend.U32, len(v))
	require.NoError(c.t, backend.Upload(c.be, c.s, b, 0, v))
	return b
}

// random is n values of the standard normal distribution.
func (c *scene) random(rng *rand.Rand, dt backend.DType, n int) *Buffer {
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
func (c *scene) floats(b *Buffer) []float32 {
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
func (c *scene) call(blocks int) backend.AttendParams[*Buffer] {
	p, err := plan.Attend(c.shape, plan.Capacity{blocks, blocks, blocks})
	require.NoError(c.t, err)
	call := c.attend
	call.Plan, call.Work = p, backend.Some(c.words(p.Work))
	call.Workspace = backend.Some(c.alloc(backend.F32, p.Workspace))
	for _, b := range []*Buffer{call.Out.Rows.Buf, call.Out.LSE.Buf, call.Workspace.Buf} {
		require.NoError(c.t, c.be.Fill(c.s, b, 0, b.Len(), math.NaN()))
	}
	require.NoError(c.t, c.be.Fill(c.s, call.Out.Mass.Buf, 0, call.Out.Mass.Buf.Len(), 0))
	return call
}

// result is what a call wrote.
type result struct{ rows, lse, mass []float32 }

func (c *scene) run(call backend.AttendParams[*Buffer]) result {
	require.NoError(c.t, c.be.Attend(c.s, call))
	return result{c.floats(call.Out.Rows.Buf), c.floats(call.Out.LSE.Buf), c.floats(call.Out.Mass.Buf)}
}

// Into however many parts a plan cuts the contexts, odd numbers too, the result is
// that of none.
func TestSplitsAgree(t *testing.T) {
	be := open(t)
	for _, f := range launch.Formats {
		for name, see := range map[string]plan.Visibility{
			"causal": {}, "noncausal": {NonCausal: true}, "window": {Window: 270, SinkTokens: 50},
		} {
			t.Run(fmt.Sprint(f.Act, " ", f.K, " ", name), func(t *testing.T) {
				c := newScene(t, be, f, see)
				call := c.call(1)
				require.Zero(t, call.Plan.Parts)
				whole := c.run(call)
				limit := map[backend.DType]float64{backend.F32: 2e-6, backend.F16: 1e-3, backend.BF16: 8e-3}[f.Act]
				for _, blocks := range []int{7, 1000} {
					call := c.call(blocks)
					require.Positive(t, call.Plan.Parts)
					split := c.run(call)
					require.InDeltaSlice(t, whole.rows, split.rows, 5*limit)
					for i, lse := range whole.lse {
						require.InDelta(t, lse, split.lse[i], 1e-4)
					}
					require.InDeltaSlice(t, whole.mass, split.mass, 1e-4+limit)
				}
			})
		}
	}
}

// Attend finds its kernels before it launches the first: whichever call of the
// driver fails, the error says so, and the next attempt is right.
func TestAttendAfterFailures(t *testing.T) {
	c := control(t)
	good := openNow(t)
	var want result
	t.Run("without", func(t *testing.T) {
		scene := newScene(t, good, launch.Formats[0], plan.Visibility{})
		want = scene.run(scene.call(1000))
	})
	require.NoError(t, good.Close())

	met := true
	for n := 1; met && !t.Failed(); n++ {
		be := openNow(t) // without a kernel
		t.Run(fmt.Sprint("failure ", n), func(t *testing.T) {
			scene := newScene(t, be, launch.Formats[0], plan.Visibility{})
			call := scene.call(1000)
			injected, found, launched := c.Counts().Injected, c.Calls("cuModuleGetFunction"), c.Calls("cuLaunchKernel")
			c.FailCall(n)
			err := be.Attend(scene.s, call)
			c.FailCall(0)
			launched = c.Calls("cuLaunchKernel") - launched
			if met = c.Counts().Injected > injected; !met {
				require.NoError(t, err)
				require.EqualValues(t, 5, launched, "three kinds, the merge and the mass")
				return
			}
			require.Error(t, err)
			if launched > 0 {
				require.EqualValues(t, 5, c.Calls("cuModuleGetFunction")-found, "kernels that were found before the first launch")
			}
			again := scene.run(scene.call(1000))
			require.Equal(t, want.rows, again.rows)
			require.Equal(t, want.lse, again.lse)
			require.InDeltaSlice(t, want.mass, again.mass, 1e-5, "which is summed up in any order")
		})
		require.NoError(t, be.Close())
	}
}

// Whatever stands in device memory where the host put work, lengths, offsets and
// blocks, kernels stay inside the operands: the stand-in guards them.
func TestGarbageInDeviceMemory(t *testing.T) {
	be := open(t)
	for _, f := range []backend.Format{launch.Formats[0], launch.Formats[2]} {
		c := newScene(t, be, f, plan.Visibility{Window: 270, SinkTokens: 50})
		call := c.call(1000)
		rng := rand.New(rand.NewPCG(3, 4))
		for _, b := range []*Buffer{call.Work.Buf, call.Batch.ContextLens, call.Batch.QueryOffsets.Buf, call.Batch.Table.Buf} {
			good := make([]uint32, b.Len())
			require.NoError(t, backend.Download(be, c.s, good, b, 0))
			for _, most := range []uint32{8, 1 << 10, math.MaxUint32} {
				bad := slices.Clone(good)
				for i := range bad {
					if rng.IntN(3) == 0 {
						bad[i] = rng.Uint32N(most)
					}
				}
				require.NoError(t, backend.Upload(be, c.s, b, 0, bad))
				require.NoError(t, be.Attend(c.s, call))
				require.NoError(t, c.s.Sync())
			}
			require.NoError(t, backend.Upload(be, c.s, b, 0, good))
		}
	}
}
