//go:build linux && cgo && !nometal && metalsimt && !asan

package metal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/backendtest/gputest"
	"github.com/ferrumkv/ferrumkv/internal/standin/metalsimt"
)

// A kernel that leaves its memory loses its Backend, and neither the process nor
// another Backend of the device. (A sanitizer would end the process.)
func TestPageFault(t *testing.T) {
	start := metalsimt.Count().Live()
	be, neighbour := openNow(t), openNow(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	waiting, err := be.NewStream()
	require.NoError(t, err)
	e, err := be.NewEvent()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 1<<14)
	require.NoError(t, err)
	require.NoError(t, be.Fill(s, b, 0, 1<<14, 1))
	_, err = be.modules.get(copies[0]) // the places are not aligned; the Device would load it
	require.NoError(t, err)
	require.NoError(t, s.(*stream).CopyBytes(b.Place(), b.Place().Plus(4), 1<<16), "four bytes too many")
	require.NoError(t, s.Record(e))
	_ = waiting.Wait(e) // which may know of it already
	_ = be.Fill(waiting, b, 0, 1, 1)

	require.ErrorIs(t, s.Sync(), backend.ErrLost)
	require.Contains(t, metalsimt.Report(), "kernel fkv_copy")
	require.Contains(t, metalsimt.Report(), "kernels/metal/")
	require.ErrorIs(t, waiting.Sync(), backend.ErrLost, "and it does not hang")
	require.ErrorIs(t, e.Sync(), backend.ErrLost)
	require.ErrorIs(t, second(be.Alloc(backend.F32, 1)), backend.ErrLost)
	require.ErrorIs(t, be.Free(b), backend.ErrLost)
	require.NoError(t, gputest.Exercise[*Buffer](neighbour))
	require.NoError(t, be.Close(), "its loss was reported")
	require.NoError(t, neighbour.Close())
	again := openNow(t)
	require.NoError(t, gputest.Exercise[*Buffer](again))
	require.NoError(t, again.Close())
	require.Equal(t, start, metalsimt.Count().Live(), "%+v", metalsimt.Count())
}
