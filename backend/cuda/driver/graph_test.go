//go:build linux && cgo && !nocuda

package driver

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// A copy that was captured runs when its graph is launched, each time; a capture that was
// broken ends all the same.
func TestGraphs(t *testing.T) {
	ctx := retain(t)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	a, err := ctx.Alloc(8)
	require.NoError(t, err)
	host, err := ctx.AllocHost(8)
	require.NoError(t, err)
	is := func(want bool) {
		t.Helper()
		capturing, err := ctx.Capturing(s)
		require.NoError(t, err)
		require.Equal(t, want, capturing)
	}
	is(false)
	require.NoError(t, ctx.BeginCapture(s, Relaxed))
	is(true)
	require.NoError(t, ctx.Copy(a+4, a, 4, s))
	require.NoError(t, ctx.CopyToHost(host, a, s))
	g, err := ctx.EndCapture(s)
	require.NoError(t, err)
	is(false)
	e, err := ctx.Instantiate(g)
	require.NoError(t, err)
	require.NoError(t, ctx.DestroyGraph(g))
	for i := range byte(3) {
		require.NoError(t, ctx.CopyToDevice(a, []byte{i, 1, 2, 3}, s))
		require.NoError(t, ctx.LaunchGraph(e, s))
		require.NoError(t, ctx.Sync(s))
		require.Equal(t, []byte{i, 1, 2, 3, i, 1, 2, 3}, host)
	}
	require.NoError(t, ctx.DestroyExec(e))

	runtime.LockOSThread() // which has begun it, and ends it
	defer runtime.UnlockOSThread()
	require.NoError(t, ctx.BeginCapture(s, ThreadLocal))
	other, err := ctx.AllocHost(8)
	require.NoError(t, err, "what is of no stream is made all the same")
	require.ErrorIs(t, ctx.Sync(s), backend.ErrCapture{})
	_, err = ctx.EndCapture(s)
	require.ErrorIs(t, err, backend.ErrCapture{})
	is(false)
	for _, mem := range [][]byte{host, other} {
		require.NoError(t, ctx.FreeHost(mem))
	}
	require.NoError(t, ctx.Free(a))
	require.NoError(t, ctx.DestroyStream(s))
}
