//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
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
