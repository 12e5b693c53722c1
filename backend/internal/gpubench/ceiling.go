package gpubench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// ceilings are what the device can do at most, in bytes and floating point operations a
// second.
type ceilings struct {
	copy, read float64
	matrix     []rate
}

type rate struct {
	dt    backend.DType
	flops float64
}

// of is the rate of matrix products of dt; that of f16 where there is no probe for dt.
func (c ceilings) of(dt backend.DType) float64 {
	for _, m := range c.matrix {
		if m.dt == dt {
			return m.flops
		}
	}
	return c.matrix[0].flops
}

// report makes benchmarks of them, too.
func (c ceilings) report(b *testing.B) {
	line := func(name string, rate float64, unit string) {
		b.Run("ceiling/"+name, func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(0, "ns/op") // was measured before
			b.ReportMetric(rate, unit)
		})
	}
	line("copy", c.copy/1e9, "GB/s")
	line("read", c.read/1e9, "GB/s")
	for _, m := range c.matrix {
		line("matrix/"+m.dt.String(), m.flops/1e12, "TFLOP/s")
	}
}

// The shape of fkv_probe_mma: SIMD groups of a block, and products of one in a round.
const probeWarps, probeProducts = 4, 8

// measureCeilings times what nothing on the device is faster than.
func (r *rig[B]) measureCeilings() {
	most := func(amount float64, op operation) float64 {
		n := r.calls(op)
		var times []float64
		for range r.size(10, 1) {
			times = append(times, r.time(n, op))
		}
		return amount / median(times)
	}
	out := r.alloc(backend.F32, 1)
	require.NoError(r.b, r.Backend.Fill(r.Stream, out, 0, 1, 0))
	iterations := uint32(r.size(1<<14, 2))
	for _, dt := range r.Matrix {
		blocks := r.resident(launch.Kernel{Op: launch.OpProbeMMA, In: dt})
		flops := float64(blocks) * float64(iterations) * probeWarps * probeProducts * r.ProductFlops
		r.ceilings.matrix = append(r.ceilings.matrix, rate{dt, most(flops, func(int) error {
			launch.ProbeMMA(r.Stream.Calls(), dt, out.Place(), iterations, blocks)
			return r.Stream.Run()
		})})
	}
	big := r.filled(backend.F32, r.size(1<<28, 1<<12)) // far more than a cache holds
	half, bytes := big.Len()/2, float64(big.Bytes())
	r.ceilings.copy = most(bytes, func(int) error { return r.Backend.Copy(r.Stream, big, 0, big, half, half) })
	blocks := r.resident(launch.Kernel{Op: launch.OpProbeRead})
	r.ceilings.read = most(bytes, func(int) error {
		launch.ProbeRead(r.Stream.Calls(), big.Place(), out.Place(), big.Bytes(), blocks)
		return r.Stream.Run()
	})
}

// resident is the blocks of a kernel that the device runs at once.
func (r *rig[B]) resident(k launch.Kernel) uint32 {
	n, err := r.Resident(k)
	require.NoError(r.b, err)
	return uint32(n)
}
