package gputest

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
)

// Into however many parts a plan cuts the contexts, odd numbers too, and whether it reads once
// what sequences have in common, the result is that of none.
func testSplits[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	for _, f := range append(launch.Formats[:5:5], // the plain ones
		backend.Format{Act: backend.F16, K: backend.Int8, V: backend.Int4}, backend.Format{Act: backend.BF16, K: backend.Int4Channel, V: backend.Int8},
		backend.Format{Act: backend.F32, K: backend.FP8E4M3, V: backend.Int4}) {
		for name, see := range map[string]plan.Visibility{
			"causal": {}, "noncausal": {NonCausal: true}, "window": {Window: 270, SinkTokens: 50},
			"older": {Part: backend.OlderKeys, Residual: 10}, "recent": {Part: backend.ResidualKeys, Residual: 270},
		} {
			t.Run(fmt.Sprint(f.Act, " ", f.K, " ", name), func(t *testing.T) {
				c := newScene(t, be, f, see)
				call := c.call(1)
				require.Zero(t, call.Plan.Parts)
				whole := c.run(call)
				limit := map[backend.DType]float64{backend.F32: 2e-6, backend.F16: 1e-3, backend.BF16: 8e-3}[f.Act]
				for _, blocks := range []int{7, 1000, 8, 1001} {
					if blocks == 8 {
						c.share()
					}
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
func testAttendAfterFailures[B launch.Buffer](t *testing.T, d *Device[B]) {
	c := d.standin(t)
	good := d.openNow(t)
	var want result
	t.Run("without", func(t *testing.T) {
		scene := newScene(t, good, launch.Formats[0], plan.Visibility{})
		want = scene.run(scene.call(1000))
	})
	require.NoError(t, good.Close())

	met := true
	for n := 1; met && !t.Failed(); n++ {
		be := d.openNow(t) // without a kernel
		t.Run(fmt.Sprint("failure ", n), func(t *testing.T) {
			scene := newScene(t, be, launch.Formats[0], plan.Visibility{})
			call := scene.call(1000)
			injected, found, launched := c.Injected(), c.Found(), c.Launched()
			c.FailCall(n)
			err := be.Attend(scene.s, call)
			c.FailCall(0)
			launched = c.Launched() - launched
			if met = c.Injected() > injected; !met {
				require.NoError(t, err)
				require.EqualValues(t, 5, launched, "three kinds, the merge and the mass")
				return
			}
			require.Error(t, err)
			if launched > 0 {
				require.EqualValues(t, 5, c.Found()-found, "kernels that were found before the first launch")
			}
			again := scene.run(scene.call(1000))
			require.Equal(t, want.rows, again.rows)
			require.Equal(t, want.lse, again.lse)
			require.InDeltaSlice(t, want.mass, again.mass, 1e-5, "which is summed up in any order")
		})
		require.NoError(t, be.Close())
	}
}

// Queries that are not numbers give no numbers, and read nothing else.
func testNaN[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	for _, f := range []backend.Format{launch.Formats[0], launch.Formats[2], {Act: backend.F16, K: backend.Int8, V: backend.Int4}} {
		c := newScene(t, be, f, plan.Visibility{})
		for _, blocks := range []int{1, 7, 1000} {
			call := c.call(blocks)
			require.NoError(t, be.Fill(c.s, call.Q.Buf, 0, call.Q.Buf.Len(), math.NaN()))
			got := c.run(call)
			require.True(t, math.IsNaN(float64(got.rows[0])))
		}
	}
}

// Whatever stands in device memory where the host put work, lengths, offsets and
// blocks, kernels stay inside the operands: the stand-in guards them.
func testGarbage[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	for i, f := range []backend.Format{launch.Formats[0], launch.Formats[0], launch.Formats[2], launch.Formats[2],
		{Act: backend.F16, K: backend.Int4Channel, V: backend.Int4}, {Act: backend.F32, K: backend.Int8, V: backend.Int4}} {
		see := plan.Visibility{Window: 270, SinkTokens: 50}
		if i%2 == 1 {
			see = plan.Visibility{}
		}
		spoilAttend(t, newScene(t, be, f, see))
		spoilAttend(t, newScene(t, be, f, plan.Visibility{Part: backend.OlderKeys, Residual: 10}))
	}
}

// spoilAttend overwrites what the host put into device memory.
func spoilAttend[B launch.Buffer](t *testing.T, c *scene[B]) {
	c.share() // where there is no window
	call := c.call(1000)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, b := range []B{call.Work.Buf, call.Batch.ContextLens, call.Batch.QueryOffsets.Buf, call.Batch.Table.Buf} {
		good := make([]uint32, b.Len())
		require.NoError(t, backend.Download(c.be, c.s, good, b, 0))
		for _, most := range []uint32{8, 1 << 10, math.MaxUint32} {
			bad := slices.Clone(good)
			for i := range bad {
				if rng.IntN(3) == 0 {
					bad[i] = rng.Uint32N(most)
				}
			}
			require.NoError(t, backend.Upload(c.be, c.s, b, 0, bad))
			require.NoError(t, c.be.Attend(c.s, call))
			require.NoError(t, c.s.Sync())
		}
		require.NoError(t, backend.Upload(c.be, c.s, b, 0, good))
	}
}
