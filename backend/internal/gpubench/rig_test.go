package gpubench

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
)

// ticking is a device whose calls take a millisecond each by its clock.
func ticking(t *testing.T, c Clock) (r *rig[*device.Buffer], op operation, turns *[]int) {
	turns = new([]int)
	c.Time = func(enqueue func() error) (time.Duration, error) {
		before := len(*turns)
		err := enqueue()
		return time.Duration(len(*turns)-before) * time.Millisecond, err
	}
	op = func(turn int) error {
		*turns = append(*turns, turn)
		return nil
	}
	return &rig[*device.Buffer]{Device: Device[*device.Buffer]{Clock: c, Stream: still{}}, b: t}, op, turns
}

// still is a stream that has nothing to do.
type still struct{ Stream }

func (still) Sync() error { return nil }

func TestCallsTakeTheLeastTime(t *testing.T) {
	r, op, turns := ticking(t, Clock{Most: 1000, Least: 50 * time.Millisecond})
	require.Equal(t, 64, r.calls(op))
	require.InEpsilon(t, 1e-3, r.time(7, op), 1e-9, "the mean of a call")
	require.True(t, slices.IsSorted(*turns))
	require.Len(t, slices.Compact(*turns), len(*turns), "memory goes on where the last measurement ended")

	r, op, _ = ticking(t, Clock{Most: 16, Least: time.Second})
	require.Equal(t, 16, r.calls(op))
	r.Emulated = true
	require.Equal(t, 1, r.calls(op))
}

func TestReport(t *testing.T) {
	w := work{bytes: 3e9, flops: 6e9, limit: 2e9}
	times := []float64{1, 2, 2, 4, 9}
	got := testing.Benchmark(func(b *testing.B) { w.report(b, times, true) }).Extra
	require.Equal(t, map[string]float64{"ns/op": 2e9, "q1-ns": 2e9, "q3-ns": 4e9, "runs": 5, "GB/s": 1.5, "MB": 3000, "flop/B": 2, "of-limit": 0.75}, got)
	w.calculates = true
	got = testing.Benchmark(func(b *testing.B) { w.report(b, times, false) }).Extra
	require.Equal(t, 0.003, got["TFLOP/s"])
	require.NotContains(t, got, "GB/s")
	require.NotContains(t, got, "of-limit")
	w.limit = 0
	require.NotContains(t, testing.Benchmark(func(b *testing.B) { w.report(b, times, true) }).Extra, "of-limit")
}

// What a step does at least: a query sees the keys up to its own, and 4 operations are for
// each of their dims.
func TestWorkOfAStep(t *testing.T) {
	once := func(rate float64) limit { return limit{does: work{bytes: rate}, times: []float64{1}} }
	products := func(dt backend.DType, rate float64) limit {
		return limit{dt: dt, does: work{flops: rate, calculates: true}, times: []float64{1}}
	}
	r := rig[*device.Buffer]{limits: limits{copy: once(1), read: once(2), matrix: []limit{products(backend.F16, 3), products(backend.BF16, 4)}}}
	chunk := step{what: prefill, act: backend.BF16, stored: backend.BF16, batch: 2, context: 5, queries: 3, group: 4}
	require.Equal(t, work{bytes: 2 * 2 * 5 * width * 2, flops: 4 * 2 * (3 + 4 + 5) * 4 * width, calculates: true, limit: 4}, r.does(chunk))
	one := step{what: decode, act: backend.F32, stored: backend.F32, batch: 2, context: 5, queries: 1, group: 4}
	require.Equal(t, work{bytes: 2 * 2 * 5 * width * 4, flops: 4 * 2 * 5 * 4 * width, limit: 2}, r.does(one))
	one.what = mass
	require.EqualValues(t, 3*2*5*width*4, r.does(one).bytes)
	one.what = flat
	require.Zero(t, r.does(one).limit, "common blocks are read from caches")
	small := step{what: decode, act: backend.F16, stored: backend.Int4Channel, batch: 2, context: 48, queries: 1, group: 4, block: blockSize}
	require.EqualValues(t, 2*(2*48*width/2+4*width*3+4*48*kvHeads*dim/32), r.does(small).bytes, "with scales")
	require.Equal(t, 3., r.limits.products(backend.F32), "no probe: as f16")
}

func TestSlotsAreOfShuffledBlocks(t *testing.T) {
	slots := slotsOf(5 * blockSize)
	for i, slot := range slots {
		require.Equal(t, slots[i/blockSize*blockSize]+int64(i%blockSize), slot)
	}
	require.False(t, slices.IsSorted(slots))
	slices.Sort(slots)
	require.Len(t, slices.Compact(slots), 5*blockSize)
	require.Zero(t, slots[0])
	require.EqualValues(t, 5*blockSize-1, slots[len(slots)-1])
}

// Sequences have their first blocks in common, and no others.
func TestTable(t *testing.T) {
	table := step{block: 16, batch: 3, context: 64, shared: 32}.table()
	require.Len(t, table, 3*4)
	for i := 4; i < len(table); i += 4 {
		require.Equal(t, table[:2], table[i:i+2])
	}
	slices.Sort(table)
	require.Equal(t, []uint32{0, 1, 2, 3, 4, 5, 6, 7}, slices.Compact(table))
	require.Len(t, slices.Compact(step{batch: 3, context: 64}.table()), 3, "one block a sequence")
}

// The state is read while the device is at work.
func TestStateUnderLoad(t *testing.T) {
	r, _, _ := ticking(t, Clock{Most: 1})
	r.under("during nothing", nil)
	require.Empty(t, r.states, "nothing tells")
	busy := false
	r.State = func() string { return "fast" }
	r.under("during work", func(int) error {
		busy = true
		return nil
	})
	require.True(t, busy)
	require.Equal(t, [][2]string{{"during work", "fast"}}, r.states)
}
