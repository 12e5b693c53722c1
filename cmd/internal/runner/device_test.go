package runner

import (
	"os"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/all"
	_ "github.com/ferrumkv/ferrumkv/internal/variants/fromenv"
	"github.com/stretchr/testify/require"
)

// openDevice opens the device that FERRUM_TEST_DEVICE names, the CPU by default:
// texts are the same on every device.
func openDevice(t testing.TB) backend.Backend[backend.AnyBuffer] {
	name := os.Getenv("FERRUM_TEST_DEVICE")
	if name == "" {
		name = "cpu"
	}
	be, err := backend.Open(name)
	require.NoError(t, err, "the device that FERRUM_TEST_DEVICE names")
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	return be
}

// emulated reports whether be is the stand-in that runs a GPU's kernels on the CPU,
// where texts are kept short.
func emulated(be backend.Backend[backend.AnyBuffer]) bool {
	return strings.Contains(be.Info().Device, "simt")
}
