package kvcache

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/all"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	_ "github.com/ferrumkv/ferrumkv/internal/variants/fromenv"
	"github.com/stretchr/testify/require"
)

// envTestDevice names the device that tests run on, as backend.Open takes it. The
// erased form of the CPU is the default, so that the same bodies run everywhere.
const envTestDevice = "FERRUM_TEST_DEVICE"

// buffer is the test device's.
type buffer = backend.AnyBuffer

// deviceName is the device that tests run on.
func deviceName() string {
	if name := os.Getenv(envTestDevice); name != "" {
		return name
	}
	return "cpu:threads=2"
}

// openDevice opens the test device anew: what a test leaves on it is its own.
func openDevice(t require.TestingT) backend.Backend[buffer] {
	be, err := backend.Open(deviceName())
	require.NoError(t, err, "the device that %s names", envTestDevice)
	return be
}

// description is what the test device says of itself.
type description struct {
	backend.Info
	backend.Caps
}

var testDevice = sync.OnceValue(func() description {
	be, err := backend.Open(deviceName())
	if err != nil {
		panic(fmt.Errorf("the device that %s names: %w", envTestDevice, err))
	}
	d := description{be.Info(), be.Caps()}
	if err := be.Close(); err != nil {
		panic(err)
	}
	return d
})

// emulated reports whether a device is the stand-in that runs a GPU's kernels on the
// CPU: right, and thousands of times slower.
func emulated(device backend.Info) bool { return strings.Contains(device.Device, "simt") }

// testDims is a small (K dim, V dim) of the test device: two that differ where it
// computes any, else the first that it lists.
func testDims() [2]int {
	if dims := testDevice().HeadDims; dims != nil {
		return dims[0]
	}
	return [2]int{4, 6}
}

// openCPU opens the CPU in its typed form.
func openCPU(t require.TestingT) *cpu.Backend {
	be, err := cpu.Open(cpu.Options{Threads: 2})
	require.NoError(t, err)
	return be
}
