//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
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
		t.Skip(err)
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

// A Metal device passes the suite that every device passes.
func TestConformance(t *testing.T) {
	be := openNow(t)
	o := backendtest.OptionsFor(t, be.Info())
	require.NoError(t, be.Close())
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] {
		be, err := Open(0)
		require.NoError(t, err)
		return be
	}, o)
}
