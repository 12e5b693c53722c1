//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/stretchr/testify/require"
)

// bench is an open device whose kernels are timed by its own clock.
type bench struct {
	b          *testing.B
	be         *Backend
	s          *stream
	start, end driver.Event
	idle       *Buffer // what is copied before each measurement, so that launches wait in line
	emulated   bool    // by the stand-in: shapes shrink, and no rate is compared with another
}

// ceilings are what the device can do at most, measured once in this process, in
// bytes and floating point operations a second.
type ceilings struct{ copy, read, f16, bf16 float64 }

var measured struct {
	sync.Once
	ceilings
}

// newBench opens the device. The caller closes it.
func newBench(b *testing.B) *bench {
	be := openNow(b)
	s, err := be.NewStream()
	require.NoError(b, err)
	r := &bench{b: b, be: be, s: s.(*stream), emulated: emulated(be)}
	for _, e := range []*driver.Event{&r.start, &r.end} {
		*e, err = be.ctx.NewEvent(true)
		require.NoError(b, err)
	}
	r.idle = r.alloc(backend.F32, r.size(1<<28, 1<<10))
	measured.Do(func() { measured.ceilings = r.measureCeilings() })
	return r
}

// close gives all memory back: what one benchmark holds, the next may need.
func (r *bench) close() { require.NoError(r.b, r.be.Close()) }

// size is a size of a shape: the stand-in only shows that the programs run.
func (r *bench) size(device, emulated int) int {
	if r.emulated {
		return emulated
	}
	return device
}

// alloc returns memory that lives as long as the device.
func (r *bench) alloc(dt backend.DType, n int) *Buffer {
	buf, err := r.be.Alloc(dt, n)
	require.NoError(r.b, err)
	return buf
}

// random is n numbers of [−1, 1): constant ones would take less power, and time.
func (r *bench) random(dt backend.DType, n int) *Buffer {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	first := min(n, 1<<16)
	var host []byte
	for range first {
		x := 2*rng.Float32() - 1
		switch dt {
		case backend.F16:
			host = append(host, backend.BytesOf([]uint16{quant.F16(x)})...)
		case backend.BF16:
			host = append(host, backend.BytesOf([]uint16{quant.BF16(x)})...)
		default:
			host = append(host, backend.BytesOf([]float32{x})...)
		}
	}
	buf := r.alloc(dt, n)
	require.NoError(r.b, r.be.Upload(r.s, buf, 0, host))
	for have := first; have < n; have *= 2 {
		require.NoError(r.b, r.be.Copy(r.s, buf, have, buf, 0, min(have, n-have)))
	}
	return buf
}

func upload[T backend.Number](r *bench, dt backend.DType, values []T) *Buffer {
	buf, err := backend.AllocFrom(r.be, r.s, dt, values)
	require.NoError(r.b, err)
	return buf
}

// calls is how many calls are timed at once.
const calls = 20

// once is the device's time of a call of op in seconds: the mean of several that
// follow each other. They are enqueued behind a copy that keeps the device busy
// until all are in line, so that the host's time is not in it.
func (r *bench) once(op func(turn int) error) float64 {
	n := r.size(calls, 1)
	half := r.idle.Len() / 2
	err := errors.Join(r.be.Copy(r.s, r.idle, 0, r.idle, half, half), r.be.ctx.Record(r.start, r.s.cu))
	for turn := range n {
		err = errors.Join(err, op(turn))
	}
	require.NoError(r.b, errors.Join(err, r.be.ctx.Record(r.end, r.s.cu), r.s.Sync()))
	took, err := r.be.ctx.Elapsed(r.start, r.end)
	require.NoError(r.b, err)
	return took.Seconds() / float64(n)
}

// median is the middle of times, which it sorts.
func median(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}

// work is what a call does, and what the device could do at most.
type work struct {
	amount  float64 // of a call, in bytes or floating point operations
	unit    string
	scale   float64 // of the unit
	ceiling float64 // amounts a second
}

func moved(bytes int) work { return work{float64(bytes), "GB/s", 1e9, measured.copy} }
func read(bytes int) work  { return work{float64(bytes), "GB/s", 1e9, measured.read} }

// run measures op for as long as the benchmark asks and reports the median time,
// the rate, and the rate as a fraction of the device's. "ns/op" is the device's time.
func (r *bench) run(b *testing.B, w work, op func(turn int) error) {
	defer func(outer *testing.B) { r.b = outer }(r.b)
	r.b = b
	var times []float64
	for b.Loop() {
		times = append(times, r.once(op))
	}
	t := median(times)
	b.ReportMetric(t*1e9, "ns/op")
	b.ReportMetric(w.amount/t/w.scale, w.unit)
	if !r.emulated {
		b.ReportMetric(w.amount/t/w.ceiling, "fraction")
	}
}

// measureCeilings times what nothing on the device is faster than.
func (r *bench) measureCeilings() (c ceilings) {
	rate := func(amount float64, op func(turn int) error) float64 {
		var times []float64
		for range r.size(10, 1) {
			times = append(times, r.once(op))
		}
		return amount / median(times)
	}
	big := r.random(backend.F32, r.size(1<<28, 1<<12)) // far more than a cache holds
	half := big.Len() / 2
	c.copy = rate(float64(big.Bytes()), func(int) error { return r.be.Copy(r.s, big, 0, big, half, half) })

	out := r.alloc(backend.F32, 1)
	require.NoError(r.b, r.be.Fill(r.s, out, 0, 1, 0))
	blocks := r.resident(launch.Kernel{Op: launch.OpProbeRead})
	c.read = rate(float64(big.Bytes()), func(int) error {
		launch.ProbeRead(&r.s.calls, big.Place(), out.Place(), big.Bytes(), blocks)
		return r.s.Run()
	})
	const warps, products, flops = 4, 8, 2 * 16 * 8 * 16 // of a block, a warp, a product
	iterations := uint32(r.size(1<<14, 2))
	for dt, to := range map[backend.DType]*float64{backend.F16: &c.f16, backend.BF16: &c.bf16} {
		blocks := r.resident(launch.Kernel{Op: launch.OpProbeMMA, In: dt})
		*to = rate(float64(blocks)*warps*products*flops*float64(iterations), func(int) error {
			launch.ProbeMMA(&r.s.calls, dt, out.Place(), iterations, blocks)
			return r.s.Run()
		})
	}
	require.NoError(r.b, errors.Join(r.be.Free(big), r.be.Free(out)))
	return c
}

// resident is the blocks of a kernel that the device runs at once.
func (r *bench) resident(id launch.Kernel) uint32 {
	k, err := r.be.modules.find(id)
	require.NoError(r.b, err)
	return uint32(k.resident)
}
