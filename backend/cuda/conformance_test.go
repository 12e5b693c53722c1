//go:build linux && cgo && !nocuda

package cuda

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
)

// emulatedWork is the largest attention case, in multiply-adds, that the stand-in
// runs unless FERRUM_TEST_MAXWORK says otherwise: the suite then takes minutes.
const emulatedWork = 1 << 20

// A CUDA device passes the suite that every device passes.
func TestConformance(t *testing.T) {
	be := openNow(t)
	var o backendtest.Options
	if emulated(be) {
		o = backendtest.Options{Reduced: true, MaxWork: emulatedWork}
	}
	require.NoError(t, be.Close())
	if limit := os.Getenv("FERRUM_TEST_MAXWORK"); limit != "" {
		n, err := strconv.Atoi(limit)
		require.NoError(t, err, "FERRUM_TEST_MAXWORK")
		o.MaxWork = n
	}
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] {
		be, err := Open(0)
		require.NoError(t, err)
		return be
	}, o)
}
