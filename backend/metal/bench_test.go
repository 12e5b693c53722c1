//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/bench"
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
	gputest.BenchmarkKernels(b, bench.Device[*Buffer]{
		Backend: be, Emulated: strings.Contains(be.Info().Device, "simt"),
		Clock: bench.HostClock(own), Least: 50 * time.Millisecond, Most: 1 << 20,
		About: [][2]string{{"system", "macOS " + be.gpu.Info.OS}},
	}, gputest.Probes{
		Stream: own,
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
