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
func ticking(c Clock) (r *rig[*device.Buffer], op operation, turns *[]int) {
	turns = new([]int)
	c.Time = func(enqueue func() error) (time.Duration, error) {
		*turns = nil
		err := enqueue()
		return time.Duration(len(*turns)) * time.Millisecond, err
	}
	op = func(turn int) error {
		*turns = append(*turns, turn)
		return nil
	}
	return &rig[*device.Buffer]{Device: Device[*device.Buffer]{Clock: c}, b: &testing.B{}}, op, turns
}

func TestCallsTakeTheLeastTime(t *testing.T) {
	r, op, turns := ticking(Clock{Calls: 1, Least: 50 * time.Millisecond})
	require.Equal(t, 64, r.calls(op))
	require.Len(t, *turns, 64)
	require.True(t, slices.IsSorted(*turns))
	require.InEpsilon(t, 1e-3, r.time(7, op), 1e-9, "the mean of a call")

	r, op, _ = ticking(Clock{Calls: 20})
	require.Equal(t, 20, r.calls(op))
	r.Emulated = true
	require.Equal(t, 1, r.calls(op))
}

func TestReport(t *testing.T) {
	w := work{amount: 3e9, unit: "GB/s", scale: 1e9, ceiling: 4e9}
	seconds := median([]float64{9, 1, 2})
	got := testing.Benchmark(func(b *testing.B) { w.report(b, seconds, true) }).Extra
	require.Equal(t, map[string]float64{"ns/op": 2e9, "GB/s": 1.5, "fraction": 0.375}, got)
	got = testing.Benchmark(func(b *testing.B) { w.report(b, seconds, false) }).Extra
	require.NotContains(t, got, "fraction")
}

// What a step does at least: a query sees the keys up to its own, and 4 operations are for
// each of their dims.
func TestWorkOfAStep(t *testing.T) {
	r := rig[*device.Buffer]{ceilings: ceilings{copy: 1, read: 2, matrix: []rate{{backend.F16, 3}, {backend.BF16, 4}}}}
	prefill := step{what: "prefill", dt: backend.BF16, stored: backend.BF16, batch: 2, context: 5, queries: 3, heads: 1}
	require.Equal(t, work{4 * 2 * (3 + 4 + 5) * dim, "TFLOP/s", 1e12, 4}, r.does(prefill))
	decode := step{what: "decode", dt: backend.F32, stored: backend.F32, batch: 2, context: 5, queries: 1, heads: 32}
	require.Equal(t, work{2 * 2 * 5 * width * 4, "GB/s", 1e9, 2}, r.does(decode))
	decode.mass = true
	require.Equal(t, work{3 * 2 * 5 * width * 4, "GB/s", 1e9, 2}, r.does(decode))
	packed := step{what: "decode", dt: backend.F16, stored: backend.Int4Channel, batch: 2, context: 48, queries: 1, heads: 32, block: blockSize}
	require.Equal(t, work{2 * (2*48*width/2 + 4*width*3 + 4*48*kvHeads*dim/32), "GB/s", 1e9, 2}, r.does(packed), "with scales")
	require.Equal(t, 3., r.ceilings.of(backend.F32), "no probe: as f16")
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
