//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/gpubench"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Every kernel against the bandwidth and the matrix rate of the device, by its own clock.
func BenchmarkKernels(b *testing.B) {
	be := open(b)
	s, err := be.NewStream()
	require.NoError(b, err)
	own := s.(*stream)
	gpubench.Run(b, gpubench.Device[*Buffer]{
		Backend: be, Stream: own, Emulated: emulated(be),
		Clock: gpubench.Clock{Time: newTimer(b, be, own).time, Calls: 20},
		Resident: func(k launch.Kernel) (int, error) {
			found, err := be.modules.find(k)
			if err != nil {
				return 0, err
			}
			return found.resident, nil
		},
		Matrix: []backend.DType{backend.F16, backend.BF16}, ProductFlops: 2 * 16 * 8 * 16,
	})
}

// timer takes the device's time between two events on a stream.
type timer struct {
	be         *Backend
	s          *stream
	start, end driver.Event
	busy       *Buffer // what is copied before
}

// newTimer returns a timer that lives as long as the device.
func newTimer(b *testing.B, be *Backend, s *stream) *timer {
	t := &timer{be: be, s: s}
	var err error
	for _, e := range []*driver.Event{&t.start, &t.end} {
		*e, err = be.ctx.NewEvent(true)
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

// time is the time of what enqueue enqueues. It stands in line behind a copy that keeps
// the device busy until all is there, so that the host's time is not in it.
func (t *timer) time(enqueue func() error) (time.Duration, error) {
	half := t.busy.Len() / 2
	err := errors.Join(t.be.Copy(t.s, t.busy, 0, t.busy, half, half), t.be.ctx.Record(t.start, t.s.cu))
	err = errors.Join(err, enqueue(), t.be.ctx.Record(t.end, t.s.cu), t.s.Sync())
	if err != nil {
		return 0, err
	}
	return t.be.ctx.Elapsed(t.start, t.end)
}
