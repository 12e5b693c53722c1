package gputest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Conform runs the suite that every device passes, reduced where the device is emulated.
func Conform[B launch.Buffer](t *testing.T, d Device[B]) {
	be := d.openNow(t)
	o := backendtest.OptionsFor(t, be.Info())
	require.NoError(t, be.Close())
	backendtest.RunWith(t, func(t testing.TB) backend.Backend[B] {
		be, err := d.Open(0)
		require.NoError(t, err)
		return be
	}, o)
}
