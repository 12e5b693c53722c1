//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A caller's stream may be one that no Backend made, or a default one; the default stream
// of each thread is nobody's.
func TestImportStream(t *testing.T) {
	be := open(t)
	runner, err := be.ctx.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, be.ctx.DestroyStream(runner)) }()
	b, err := be.Alloc(backend.U32, 1)
	require.NoError(t, err)
	for i, h := range []backend.Handle{{Addr: uintptr(runner)}, {}, {Addr: 1}} {
		imported, err := be.ImportStream(h)
		require.NoError(t, err)
		require.Equal(t, h, imported.Handle())
		got := make([]uint32, 1)
		require.NoError(t, be.Fill(imported, b, 0, 1, float64(i+1)))
		require.NoError(t, backend.Download(be, imported, got, b, 0))
		require.EqualValues(t, i+1, got[0])
		require.NoError(t, imported.Close())
	}
	require.NoError(t, be.ctx.Sync(runner), "still there")
	require.ErrorIs(t, second(be.ImportStream(backend.Handle{Addr: perThread})), backend.ErrUnsupported{})
	require.NoError(t, be.Free(b))
}
