//go:build linux && cgo && !nocuda

package cuda

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/bench"
	"github.com/ferrumkv/ferrumkv/internal/nvml"
)

// Every kernel against the bandwidth and the matrix rate of the device, by its own clock.
func BenchmarkKernels(b *testing.B) {
	be := open(b)
	s, err := be.NewStream()
	require.NoError(b, err)
	own := s.(*stream)
	d := bench.Device[*Buffer]{Backend: be, Emulated: emulated(be), Clock: newTimer(b, be, own).time, Least: 4 * time.Millisecond, Most: 32,
		Host: func(memory *Buffer, host backend.HostMemory, toHost bool) error {
			if at := driver.Ptr(memory.Place().At); toHost {
				return be.ctx.CopyToHost(host.Bytes(), at, own.cu)
			} else {
				return be.ctx.CopyToDevice(at, host.Bytes(), own.cu)
			}
		}}
	d.Probes = moreLimits(b, be, own)
	tell(b, &d, be)
	gputest.BenchmarkKernels(b, d, gputest.Probes{
		Stream: own,
		Resident: func(k launch.Kernel) (int, error) {
			found, err := be.modules.find(k) // loads it, so that a launch of it does not wait
			if err != nil {
				return 0, err
			}
			return found.resident, nil
		},
		Matrix: matrixTypes, ProductFlops: 2 * 16 * 8 * 16,
	})
}

// tell is what the driver and NVML know of the device. Nothing of it is changed. Without
// the program that reads NVML the figures are the same.
func tell(b *testing.B, d *bench.Device[*Buffer], be *Backend) {
	lib, _ := library() // is open
	now := reading(b.Context(), be)
	d.About = [][2]string{{"driver", strings.TrimSpace("CUDA " + lib.VersionString() + " " + now.Driver)}}
	if now.Pace() != "" {
		d.About = append(d.About, [2]string{"at rest", now.Pace()})
		d.State = func() string { return reading(b.Context(), be).Pace() }
	}
}

// reading is what NVML says of the device now.
func reading(ctx context.Context, be *Backend) nvml.Reading {
	readings, _ := nvml.Read(ctx)
	r, _ := nvml.At(be.ctx.Device.Bus, readings)
	return r
}

// timer takes the device's time between two events on a stream.
type timer struct {
	be                *Backend
	s                 *stream
	begin, start, end driver.Event
	busy              *Buffer // what is copied before
	copies            int
}

// newTimer returns a timer that lives as long as the device.
func newTimer(b testing.TB, be *Backend, s *stream) *timer {
	t := &timer{be: be, s: s, copies: 1}
	var err error
	for _, e := range []*driver.Event{&t.begin, &t.start, &t.end} {
		*e, err = be.ctx.NewEvent(driver.Timing)
		require.NoError(b, err)
	}
	size := 1 << 28
	if emulated(be) {
		size = 1 << 10
	}
	t.busy, err = be.Alloc(backend.F32, size)
	require.NoError(b, err)
	require.NoError(b, be.Fill(s, t.busy, 0, size, 0))
	return t
}

// time is the time of what enqueue enqueues. It stands in line after copies that keep the
// device busy until all is there, so that the host's time is not in it: where they were too
// short for that, more are made, and all is done again.
func (t *timer) time(enqueue func() error) (time.Duration, error) {
	const most = 32 // a host that is slower than that was held up by others
	for {
		busy, took, host, err := t.once(enqueue)
		if err != nil || busy > host || t.copies >= most || emulated(t.be) {
			return took, err
		}
		t.copies *= 2
	}
}

// once is the device's time for the copies and for what is enqueued, and the host's.
func (t *timer) once(enqueue func() error) (busy, took, host time.Duration, err error) {
	half, ctx, cu := t.busy.Len()/2, t.be.ctx, t.s.cu
	err = ctx.Record(t.begin, cu)
	for range t.copies {
		err = errors.Join(err, t.be.Copy(t.s, t.busy, 0, t.busy, half, half))
	}
	err = errors.Join(err, ctx.Record(t.start, cu))
	began := time.Now()
	err = errors.Join(err, enqueue())
	host = time.Since(began)
	if err = errors.Join(err, ctx.Record(t.end, cu), t.s.Sync()); err != nil {
		return 0, 0, 0, err
	}
	busy, before := ctx.Elapsed(t.begin, t.start)
	took, behind := ctx.Elapsed(t.start, t.end)
	return busy, took, host, errors.Join(before, behind)
}
