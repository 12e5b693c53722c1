//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/gpubench"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Every kernel against the bandwidth and the matrix rate of the device. The host takes
// the time, from the first call to the end of the last: a command buffer takes some tenths
// of a millisecond to begin and to be seen complete, which is a hundredth of the shortest
// measurement. A kernel that runs for less time than the host needs to encode the next is
// measured with the host's time.
func BenchmarkKernels(b *testing.B) {
	be := open(b)
	s, err := be.NewStream()
	require.NoError(b, err)
	own := s.(*stream)
	gpubench.Run(b, gpubench.Device[*Buffer]{
		Backend: be, Stream: own, Emulated: strings.Contains(be.Info().Device, "simt"),
		Clock: gpubench.Clock{Time: own.time, Least: 50 * time.Millisecond, Most: 1 << 20},
		About: [][2]string{{"system", "macOS " + be.gpu.Info.OS}},
		Resident: func(k launch.Kernel) (int, error) {
			found, err := be.modules.find(&launch.Call{Kernel: k})
			if err != nil {
				return 0, err
			}
			return found.resident, nil
		},
		Matrix: []backend.DType{backend.F16}, ProductFlops: 2 * 8 * 8 * 8,
	})
}

// time is how long the host waits for what enqueue enqueues.
func (s *stream) time(enqueue func() error) (time.Duration, error) {
	if err := s.Sync(); err != nil {
		return 0, err
	}
	start := time.Now()
	err := errors.Join(enqueue(), s.Sync())
	return time.Since(start), err
}
