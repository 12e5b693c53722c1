package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
)

// The CPU passes the suite that every device passes, with all kernels that the
// processor runs: the best of them all of it, the others each value of the grid once. With -short only the best kernels run. What
// differs between kernels has tests of its own, in this package.
func TestConformance(t *testing.T) {
	for i, k := range available {
		if i > 0 && testing.Short() {
			break
		}
		var o backendtest.Options
		if i > 0 {
			o = backendtest.Options{Grid: backendtest.Values, TypedOnly: true}
		}
		t.Run(k.name, func(t *testing.T) {
			backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] {
				be, err := Open(Options{Kernels: k.name})
				require.NoError(t, err)
				return be
			}, o)
		})
	}
}
