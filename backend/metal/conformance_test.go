//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
)

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
