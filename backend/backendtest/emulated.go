package backendtest

import (
	"os"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Emulated reports whether a device is the stand-in of kernels/simt that runs a GPU's
// kernels on the CPU: right, and thousands of times slower.
func Emulated(device backend.Info) bool { return strings.Contains(device.Device, "simt") }

// OptionsFor are the options for a GPU: the grid of Values where it is emulated; Apple's flush
// subnormal numbers. FERRUM_TEST_MAXWORK in the environment is MaxWork, for checkers that make
// everything hundreds of times slower.
func OptionsFor(t require.TestingT, device backend.Info) Options {
	o := Options{Flushes: strings.HasPrefix(device.Name, "metal")}
	if Emulated(device) {
		o = Options{Grid: Values}
	}
	if limit := os.Getenv("FERRUM_TEST_MAXWORK"); limit != "" {
		n, err := strconv.Atoi(limit)
		require.NoError(t, err, "FERRUM_TEST_MAXWORK")
		o.MaxWork = n
	}
	return o
}
