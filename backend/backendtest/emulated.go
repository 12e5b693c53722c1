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

// emulatedWork is MaxWork on such a device: the suite then takes minutes.
const emulatedWork = 1 << 20

// OptionsFor are the options for a GPU: the reduced grid and small cases where it is
// emulated; Apple's flush subnormal numbers. The variable FERRUM_TEST_MAXWORK replaces MaxWork.
func OptionsFor(t require.TestingT, device backend.Info) Options {
	o := Options{Flushes: strings.HasPrefix(device.Name, "metal")}
	if Emulated(device) {
		o = Options{Reduced: true, MaxWork: emulatedWork}
	}
	if limit := os.Getenv("FERRUM_TEST_MAXWORK"); limit != "" {
		n, err := strconv.Atoi(limit)
		require.NoError(t, err, "FERRUM_TEST_MAXWORK")
		o.MaxWork = n
	}
	return o
}
