package gputest

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/bench"
)

// Probes is how a device's limits are measured, by kernels that no operation uses.
type Probes struct {
	Stream Stream
	// Resident is how many blocks of a kernel the device runs at once.
	Resident func(launch.Kernel) (int, error)
	// Matrix is the types that fkv_probe_mma multiplies, F16 first, and ProductFlops the
	// floating point operations of one of its products.
	Matrix       []backend.DType
	ProductFlops float64
}

// Stream is the backend's own, on which probes are launched as an operation's kernels are.
type Stream interface {
	backend.Stream
	Calls() *launch.Calls
	Run() error
}

// The shape of fkv_probe_mma: SIMD groups of a block, and products of one in a round.
const probeWarps, probeProducts = 4, 8

// BenchmarkKernels measures every kernel of a device, or what the pattern of the benchmarks
// chooses. Each benchmark reports the median and the quartiles of the time of a call on the
// device, the rate, and the rate as a fraction of the most that was measured in this run.
// Package benchpage makes a document of what it prints. The device's stream and probes are set
// from p.
func BenchmarkKernels[B launch.Buffer](b *testing.B, d bench.Device[B], p Probes) {
	d.Stream, d.Matrix, d.Merges = p.Stream, p.Matrix, merges[B](p.Stream)
	d.Read = func(memory, out B) error {
		blocks, err := p.Resident(launch.Kernel{Op: launch.OpProbeRead})
		if err != nil {
			return err
		}
		launch.ProbeRead(p.Stream.Calls(), memory.Place(), out.Place(), memory.Bytes(), uint32(blocks))
		return p.Stream.Run()
	}
	d.Multiply = func(dt backend.DType, out B, rounds int) (func() error, float64, error) {
		blocks, err := p.Resident(launch.Kernel{Op: launch.OpProbeMMA, In: dt})
		return func() error {
			launch.ProbeMMA(p.Stream.Calls(), dt, out.Place(), uint32(rounds), uint32(blocks))
			return p.Stream.Run()
		}, float64(blocks) * float64(rounds) * probeWarps * probeProducts * p.ProductFlops, err
	}
	g, err := bench.NewGPU(d)
	if errors.Is(err, backend.ErrOutOfMemory{}) {
		b.Skip(err)
	}
	require.NoError(b, err)
	g.Describe(os.Stdout)
	limits, trials := g.Trials()
	for _, t := range limits {
		b.Run(t.Name, func(b *testing.B) { report(b, t) }) // there is nothing left to repeat
	}
	for _, t := range trials {
		b.Run(t.Name, func(b *testing.B) { measure(b, t) })
	}
	g.DescribeEnd(os.Stdout)
}

// measure runs a trial, but not where it has no memory, or nothing to do.
func measure[B launch.Buffer](b *testing.B, t *bench.GPUTrial[B]) {
	defer func() { require.NoError(b, t.Close()) }()
	err := t.Prepare()
	if errors.Is(err, backend.ErrOutOfMemory{}) || errors.Is(err, bench.ErrNothing) {
		b.Skip(err)
	}
	require.NoError(b, err)
	for b.Loop() {
		if err := t.Sample(); err != nil {
			b.Fatal(err)
		}
	}
	report(b, t)
}

func report[B launch.Buffer](b *testing.B, t *bench.GPUTrial[B]) {
	for unit, value := range t.Metrics() {
		b.ReportMetric(value, unit)
	}
}

// merges is the launch that combines the parts of a step, in place of each of its launches.
func merges[B launch.Buffer](s Stream) func(p backend.AttendParams[B]) (func() error, int, error) {
	return func(p backend.AttendParams[B]) (func() error, int, error) {
		calls := s.Calls()
		if err := launch.Attend(calls, &p); err != nil {
			return nil, 0, err
		}
		at := slices.IndexFunc(calls.List(), func(c launch.Call) bool { return c.Kernel.Op == launch.OpAttendMerge })
		if at < 0 {
			return nil, 0, nil
		}
		return func() error {
			if err := launch.Attend(calls, &p); err != nil {
				return err
			}
			list := calls.List()
			for i := range list {
				list[i] = list[at]
			}
			return s.Run()
		}, len(calls.List()), nil
	}
}
