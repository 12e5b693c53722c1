package backendtest

import (
	"os"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Emulated reports whether a device is one of kernels/simt, which run a GPU's kernels on the CPU:
// with the same results, and thousands of times slower.
func Emulated(device backend.Info) bool { return strings.Contains(device.Device, "simt") }

// OptionsFor returns the options for a GPU: the grid Values for an emulated one, and
// FlushesSubnormals for Apple's. The environment variable FERRUM_TEST_MAXWORK sets MaxWork, for
// checkers that make everything hundreds of times slower.
func OptionsFor(t require.TestingT, device backend.Info) Options {
	o := Options{FlushesSubnormals: strings.HasPrefix(device.Name, "metal")}
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
