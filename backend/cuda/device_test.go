//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// TestMain gives the stand-in's devices as much memory as the tests need: it writes
// every byte that it allocates.
func TestMain(m *testing.M) {
	if os.Getenv("FERRUM_SIMT_MEMORY") == "" {
		_ = os.Setenv("FERRUM_SIMT_MEMORY", "400000000")
	}
	os.Exit(m.Run())
}

// openNow opens the first device, or skips the test where there is none.
func openNow(t testing.TB) *Backend {
	be, err := Open(0)
	if errors.Is(err, backend.ErrUnavailable{}) {
		t.Skipf("%v; FERRUM_CUDA_DRIVER may name the stand-in (make test-cuda-simt)", err)
	}
	require.NoError(t, err)
	return be
}

// open is openNow, closed at the test's end.
func open(t testing.TB) *Backend {
	be := openNow(t)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	return be
}

// emulated reports whether the device is the stand-in's.
func emulated(be *Backend) bool { return strings.Contains(be.Info().Device, "simt") }
