package gpubench

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// rig is a device under one benchmark.
type rig[B launch.Buffer] struct {
	Device[B]
	b        *testing.B
	ceilings ceilings
	random   map[backend.DType][]byte // what memory is filled with
}

// size is a size of a shape.
func (r *rig[B]) size(device, emulated int) int {
	if r.Emulated {
		return emulated
	}
	return device
}

// alloc returns memory that lives as long as the benchmark. One that a small device has
// no room for is skipped.
func (r *rig[B]) alloc(dt backend.DType, n int) B {
	buf, err := r.Backend.Alloc(dt, n)
	if errors.Is(err, backend.ErrOutOfMemory) {
		r.b.Skip(err)
	}
	require.NoError(r.b, err)
	r.b.Cleanup(func() { require.NoError(r.b, r.Backend.Free(buf)) })
	return buf
}

// filled is n numbers of [−1, 1), or as many codes: constant ones would take less power,
// and time.
func (r *rig[B]) filled(dt backend.DType, n int) B {
	pattern, ok := r.random[dt]
	if !ok {
		pattern = random(dt)
		r.random[dt] = pattern
	}
	first := min(n, patternLen)
	buf := r.alloc(dt, n)
	require.NoError(r.b, r.Backend.Upload(r.Stream, buf, 0, pattern[:(first*dt.Bits()+7)/8]))
	for have := first; have < n; have *= 2 {
		require.NoError(r.b, r.Backend.Copy(r.Stream, buf, have, buf, 0, min(have, n-have)))
	}
	return buf
}

// patternLen is the numbers that repeat in memory.
const patternLen = 1 << 16

func random(dt backend.DType) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	if dt.Quantized() {
		codes := make([]byte, patternLen*dt.Bits()/8)
		for i := range codes {
			codes[i] = byte(rng.UintN(256)) & 0x77 // no NaN of a float of 8 bits
		}
		return codes
	}
	halves, floats := make([]uint16, patternLen), make([]float32, patternLen)
	for i := range floats {
		floats[i] = 2*rng.Float32() - 1
		if halves[i] = quant.F16(floats[i]); dt == backend.BF16 {
			halves[i] = quant.BF16(floats[i])
		}
	}
	if dt == backend.F32 {
		return backend.BytesOf(floats)
	}
	return backend.BytesOf(halves)
}

// upload is alloc with contents.
func upload[B launch.Buffer, T backend.Number](r *rig[B], dt backend.DType, values []T) B {
	buf := r.alloc(dt, len(values))
	require.NoError(r.b, r.Backend.Upload(r.Stream, buf, 0, backend.BytesOf(values)))
	return buf
}

// operation enqueues a call; turn counts them, so that each may find other memory.
type operation func(turn int) error

// time is the seconds of a call of op: the mean of n that follow each other.
func (r *rig[B]) time(n int, op operation) float64 {
	took, err := r.Clock.Time(func() error {
		for turn := range n {
			if err := op(turn); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(r.b, err)
	return took.Seconds() / float64(n)
}

// calls is how many calls of op are timed at once.
func (r *rig[B]) calls(op operation) int {
	r.time(1, op) // its kernels are loaded, or compiled, now
	if r.Emulated {
		return 1
	}
	n := r.Clock.Calls
	for r.time(n, op)*float64(n) < r.Clock.Least.Seconds() {
		n *= 2
	}
	return n
}

// work is what a call does, and what the device could do at most.
type work struct {
	amount  float64 // of a call, in bytes or floating point operations
	unit    string
	scale   float64 // of the unit
	ceiling float64 // amounts a second
}

// moved is bytes that are read or written, read those of keys and values that are read.
func (r *rig[B]) moved(bytes int) work { return work{float64(bytes), "GB/s", 1e9, r.ceilings.copy} }
func (r *rig[B]) read(bytes int) work  { return work{float64(bytes), "GB/s", 1e9, r.ceilings.read} }

// measure runs a benchmark: set makes its memory, says what a call does, and returns it.
func (r *rig[B]) measure(name string, set func(r *rig[B]) (work, operation)) {
	r.b.Run(name, func(b *testing.B) {
		own := *r
		own.b = b
		w, op := set(&own)
		n := own.calls(op)
		var times []float64
		for b.Loop() {
			times = append(times, own.time(n, op))
		}
		w.report(b, median(times), !r.Emulated)
	})
}

// report reports a call that took the device so many seconds; where rates are compared,
// the fraction, too.
func (w work) report(b *testing.B, seconds float64, compared bool) {
	b.ReportMetric(seconds*1e9, "ns/op")
	b.ReportMetric(w.amount/seconds/w.scale, w.unit)
	if compared {
		b.ReportMetric(w.amount/seconds/w.ceiling, "fraction")
	}
}

// median is the middle of times, which it sorts.
func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}
