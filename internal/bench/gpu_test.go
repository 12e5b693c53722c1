package bench

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// ticking is a GPU whose calls take a millisecond each by its clock.
func ticking(least time.Duration, most int) (g *GPU[*buffer], op *operation, turns *[]int) {
	turns = new([]int)
	clock := func(enqueue func() error) (time.Duration, error) {
		before := len(*turns)
		err := enqueue()
		return time.Duration(len(*turns)-before) * time.Millisecond, err
	}
	op = &operation{call: func(turn int) error {
		*turns = append(*turns, turn)
		return nil
	}}
	return &GPU[*buffer]{Device: Device[*buffer]{Clock: clock, Least: least, Most: most}}, op, turns
}

func TestCallsTakeTheLeastTime(t *testing.T) {
	calls := func(g *GPU[*buffer], op *operation) int {
		n, err := g.calls(op)
		require.NoError(t, err)
		return n
	}
	g, op, turns := ticking(50*time.Millisecond, 1000)
	require.Equal(t, 50, calls(g, op))
	seconds, err := g.Clock.mean(op, 7)
	require.NoError(t, err)
	require.InEpsilon(t, 1e-3, seconds, 1e-9, "the mean of a call")
	require.True(t, slices.IsSorted(*turns))
	require.Len(t, slices.Compact(*turns), len(*turns), "memory goes on where the last measurement ended")

	g, op, _ = ticking(time.Second, 16)
	require.Equal(t, 16, calls(g, op))
	g.Emulated = true
	require.Equal(t, 1, calls(g, op))
}

func TestReport(t *testing.T) {
	once := func(rate float64) limit { return limit{does: work{bytes: rate}, times: []float64{1}} }
	g := &GPU[*buffer]{limits: limits{read: []limit{once(2e9)}, matrix: []limit{{does: work{flops: 1e10, bound: multiplying}, times: []float64{1}}}}}
	trial := GPUTrial[*buffer]{gpu: g, work: work{bytes: 3e9, flops: 6e9, bound: reading}, times: []float64{4, 1, 2, 9, 2}}
	require.Equal(t, map[string]float64{"ns/op": 2e9, "q1-ns": 2e9, "q3-ns": 4e9, "runs": 5, "GB/s": 1.5, "MB": 3000, "flop/B": 2, "of-limit": 0.75}, trial.Metrics())
	trial.work.bound = multiplying
	require.Equal(t, 0.003, trial.Metrics()["TFLOP/s"])
	require.NotContains(t, trial.Metrics(), "GB/s")
	require.InEpsilon(t, 0.3, trial.Metrics()["of-limit"], 1e-9)
	g.Emulated = true
	require.NotContains(t, trial.Metrics(), "of-limit")
	g.Emulated, trial.isLimit = false, true
	require.NotContains(t, trial.Metrics(), "of-limit")
	trial.isLimit, trial.work.bound = false, unbounded
	require.NotContains(t, trial.Metrics(), "of-limit")
}

// What a step does at least: a query sees the keys up to its own, and 4 operations are for
// each of their dims.
func TestWorkOfAStepOnAGPU(t *testing.T) {
	width := float64(llama.width())
	chunk := step{what: prefill, act: backend.BF16, stored: backend.BF16, heads: grouped(4), batch: 2, context: 5, queries: 3}
	require.Equal(t, work{bytes: 2 * 2 * 5 * width * 2, flops: 4 * 2 * (3 + 4 + 5) * 4 * width, bound: multiplying}, chunk.gpuWork())
	one := step{what: decode, act: backend.F32, stored: backend.F32, heads: grouped(4), batch: 2, context: 5, queries: 1}
	require.Equal(t, work{bytes: 2 * 2 * 5 * width * 4, flops: 4 * 2 * 5 * 4 * width, bound: reading}, one.gpuWork())
	one.what = mass
	require.EqualValues(t, 3*2*5*width*4, one.gpuWork().bytes)
	one.what = flat
	require.Equal(t, unbounded, one.gpuWork().bound, "common blocks are read from caches")
	small := step{what: decode, act: backend.F16, stored: backend.Int4Channel, heads: grouped(4), batch: 2, context: 48, queries: 1, block: blockSize}
	require.EqualValues(t, 2*(2*48*width/2+4*width*3+4*48*width/32), small.gpuWork().bytes, "with scales")
}

// A bound has the rate that was measured of it.
func TestLimits(t *testing.T) {
	once := func(rate float64) limit { return limit{does: work{bytes: rate}, times: []float64{1}} }
	products := func(dt backend.DType, rate float64) limit {
		return limit{dt: dt, does: work{flops: rate, bound: multiplying}, times: []float64{1}}
	}
	l := limits{copy: once(1), read: []limit{once(1), once(2)}, matrix: []limit{products(backend.F16, 3), products(backend.BF16, 4), products(backend.F16, 2)}}
	require.Equal(t, 1., l.rate(copying, backend.F16))
	require.Equal(t, 2., l.rate(reading, backend.F16))
	require.Equal(t, 4., l.rate(multiplying, backend.BF16))
	require.Equal(t, 3., l.rate(multiplying, backend.F32), "no probe: as f16")
	require.Zero(t, l.rate(unbounded, backend.F16))
}

// The state is read while the device is at work.
func TestStateUnderLoad(t *testing.T) {
	g, _, _ := ticking(0, 1)
	require.NoError(t, g.under("during nothing", nil))
	require.Empty(t, g.states, "nothing tells")
	busy := false
	g.State = func() string { return "fast" }
	require.NoError(t, g.under("during work", each(func() error {
		busy = true
		return nil
	})))
	require.True(t, busy)
	require.Equal(t, [][2]string{{"during work", "fast"}}, g.states)
}
