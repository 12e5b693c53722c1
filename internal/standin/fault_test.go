//go:build linux && cgo && !nocuda

package standin

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

// fill is a launch of fkv_fill that sets n bytes from p on to zero.
func fill(t *testing.T, ctx *driver.Context, p driver.Ptr, n uint64) *driver.Launch {
	m, err := cudakernels.Load()
	require.NoError(t, err)
	entry, ok := m.Find("fkv_fill")
	require.True(t, ok)
	image, err := m.Image(entry.Family)
	require.NoError(t, err)
	module, err := ctx.LoadModule(image)
	require.NoError(t, err)
	f, err := ctx.Function(module, entry.Symbol)
	require.NoError(t, err)
	l := &driver.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: uint32(entry.Threads), Count: 1}
	l.Buffers[0] = p
	for i, v := range []uint64{32 | 0xff<<32, 0, n, 1} { // fkv_fill_args: size and mask, pattern, bytes, elem
		binary.NativeEndian.PutUint64(l.Args[8*i:], v)
	}
	l.Size = 32
	return l
}

// A kernel that leaves its memory loses the device, by the line of its source, and
// takes neither the process nor Go's own faults with it.
func TestFaults(t *testing.T) {
	c := openControl(t)
	if strings.HasSuffix(Path(), "san.so") {
		t.Skip("a sanitizer ends the process at a kernel's fault")
	}
	lib, err := driver.Open(Path())
	require.NoError(t, err)
	ctx, err := lib.Retain(0)
	require.NoError(t, err)
	p, err := ctx.Alloc(1 << 12)
	require.NoError(t, err)
	require.NoError(t, ctx.Launch(fill(t, ctx, p, 1<<12)))
	require.NoError(t, ctx.Sync(0))
	require.NoError(t, ctx.Launch(fill(t, ctx, p, 1<<20)))
	require.ErrorIs(t, ctx.Sync(0), backend.ErrLost)
	require.Contains(t, c.Report(), "kernel fkv_fill")
	require.Contains(t, c.Report(), "behind the 4096 bytes of an allocation")
	require.Contains(t, c.Report(), "kernels/cuda/")
	require.ErrorIs(t, ctx.Sync(0), backend.ErrLost)

	require.Panics(t, func() {
		var none *driver.Launch
		none.Count++
	})

	require.NoError(t, ctx.Release())
	ctx, err = lib.Retain(0)
	require.NoError(t, err)
	p, err = ctx.Alloc(1 << 12)
	require.NoError(t, err)
	require.NoError(t, ctx.Free(p))
	require.NoError(t, ctx.Release())
}
