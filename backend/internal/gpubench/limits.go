package gpubench

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// limits are what the device can do at most.
type limits struct {
	copy, read limit
	matrix     []limit
}

// limit is what nothing on the device is faster than.
type limit struct {
	name  string
	dt    backend.DType // of matrix products
	does  work
	times []float64 // seconds, the shortest first
}

// rate is bytes or floating point operations a second.
func (l limit) rate() float64 {
	if l.times == nil {
		return 0
	}
	return l.does.amount() / quantile(l.times, 0.5)
}

// products is the rate of matrix products of dt; that of f16 where there is no probe for dt.
func (l limits) products(dt backend.DType) float64 {
	for _, m := range l.matrix {
		if m.dt == dt {
			return m.rate()
		}
	}
	return l.matrix[0].rate()
}

// report makes benchmarks of them, too.
func (l limits) report(b *testing.B) {
	for _, one := range append([]limit{l.copy, l.read}, l.matrix...) {
		b.Run("limit/"+one.name, func(b *testing.B) {
			one.does.report(b, one.times, false) // there is nothing left to repeat
		})
	}
}

// The shape of fkv_probe_mma: SIMD groups of a block, and products of one in a round.
const probeWarps, probeProducts = 4, 8

// measureLimits times copies, reading, and products in registers.
func (r *rig[B]) measureLimits() {
	out := r.alloc(backend.F32, 1)
	require.NoError(r.b, r.Backend.Fill(r.Stream, out, 0, 1, 0))
	iterations := uint32(r.size(1<<14, 2))
	for _, dt := range r.Matrix {
		blocks := r.resident(launch.Kernel{Op: launch.OpProbeMMA, In: dt})
		flops := float64(blocks) * float64(iterations) * probeWarps * probeProducts * r.ProductFlops
		r.limits.matrix = append(r.limits.matrix, r.limit("matrix-"+dt.String(), dt, work{flops: flops, calculates: true}, func(int) error {
			launch.ProbeMMA(r.Stream.Calls(), dt, out.Place(), iterations, blocks)
			return r.Stream.Run()
		}))
	}
	big := r.filled(backend.F32, r.size(1<<28, 1<<12)) // far more than a cache holds
	half, does := big.Len()/2, work{bytes: float64(big.Bytes())}
	r.limits.copy = r.limit("copy", backend.Invalid, does, func(int) error { return r.Backend.Copy(r.Stream, big, 0, big, half, half) })
	blocks := r.resident(launch.Kernel{Op: launch.OpProbeRead})
	r.limits.read = r.limit("read", backend.Invalid, does, func(int) error {
		launch.ProbeRead(r.Stream.Calls(), big.Place(), out.Place(), big.Bytes(), blocks)
		return r.Stream.Run()
	})
}

// limit measures a limit, and the device's state meanwhile.
func (r *rig[B]) limit(name string, dt backend.DType, does work, op operation) limit {
	l := limit{name: name, dt: dt, does: does}
	r.under("during "+name, op)
	n := r.calls(op)
	for range r.size(51, 1) {
		l.times = append(l.times, r.time(n, op))
	}
	slices.Sort(l.times)
	return l
}

// resident is the blocks of a kernel that the device runs at once.
func (r *rig[B]) resident(k launch.Kernel) uint32 {
	n, err := r.Resident(k)
	require.NoError(r.b, err)
	return uint32(n)
}
