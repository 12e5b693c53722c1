package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
)

// The CPU passes the suite that every device passes, with all kernels that the
// processor runs. The race detector slows arithmetic down twenty times, so it watches
// the small cases.
func TestConformance(t *testing.T) {
	var o backendtest.Options
	if raceDetector {
		o = backendtest.Options{Reduced: true, MaxWork: 1 << 20}
	}
	for _, k := range available {
		t.Run(k.name, func(t *testing.T) {
			backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] {
				be, err := Open(Options{Kernels: k.name})
				require.NoError(t, err)
				return be
			}, o)
		})
	}
}
