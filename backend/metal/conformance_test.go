//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
)

// A Metal device passes the suite that every device passes.
func TestConformance(t *testing.T) { gputest.Conform(t, gpu()) }

// And where every item of attention is a launch and a command buffer of its own. The cases are
// small: what is cut has more items than one, not more keys.
func TestConformanceInPieces(t *testing.T) {
	be := openNow(t)
	o := backendtest.OptionsFor(t, be.Info())
	require.NoError(t, be.Close())
	o.TypedOnly = true
	if o.MaxWork == 0 || o.MaxWork > piecesWork {
		o.MaxWork = piecesWork
	}
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[*Buffer] {
		be := openNow(t)
		be.pace.most, be.pace.groups = 0, 1
		return be
	}, o)
}

const piecesWork = 1 << 20 // multiply-adds of a case
