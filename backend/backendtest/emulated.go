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
// FlushesSubnormals for Apple's. For checkers that make everything hundreds of times slower, the environment
// variable FERRUM_TEST_MAXWORK sets MaxWork, and with FERRUM_TEST_EVERY=n one case in n of those that differ in sizes and
// formats alone is tested, the first among them.
func OptionsFor(t require.TestingT, device backend.Info) Options {
	o := Options{FlushesSubnormals: strings.HasPrefix(device.Name, "metal")}
	if Emulated(device) {
		o = Options{Grid: Values}
	}
	for name, option := range map[string]*int{"FERRUM_TEST_MAXWORK": &o.MaxWork, "FERRUM_TEST_EVERY": &o.every} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			require.NoError(t, err, name)
			*option = n
		}
	}
	return o
}
