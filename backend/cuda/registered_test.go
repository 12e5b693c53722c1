//go:build linux && cgo && !nocuda

package cuda

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
)

// What List says of a device is all from the CUDA driver, its place included.
func TestDescribe(t *testing.T) {
	lib := &driver.Library{Path: "libcuda.so.1"}
	d := driver.Device{Ordinal: 3, Name: "a device", Bus: "0000:3b:00.0", Memory: 1 << 30}
	require.Equal(t, backend.Device{Name: "cuda:3", Model: "a device", Memory: 1 << 30, Bus: "0000:3b:00.0", Driver: "CUDA 0.0 (libcuda.so.1)"},
		describe(lib, d))
}

// A device that is there and not shown to the process is not passed over in silence.
func TestHiddenDevicesAreNamed(t *testing.T) {
	none := backend.ErrUnavailable{Backend: "cuda", Why: "no device"}
	dir := t.TempDir()
	require.Equal(t, none, hidden(none, dir))
	for bus, text := range map[string]string{
		"0000:3b:00.0": "Model: \t\t NVIDIA H200\nIRQ:   \t\t 1147\nBus Location: \t 0000:3b:00.0\n",
		"0000:5e:00.0": "Model: \t\t second\n",
		"0000:5f:00.0": "",
	} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, bus), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, bus, "information"), []byte(text), 0o644))
	}
	require.EqualError(t, hidden(none, dir),
		"backend: cuda is not available: no device; the machine has NVIDIA H200, second, which CUDA_VISIBLE_DEVICES or a container may hide")
	require.ErrorIs(t, hidden(none, dir), backend.ErrUnavailable{})
	require.Equal(t, os.ErrClosed, hidden(os.ErrClosed, dir), "an error of another kind is left alone")
}
