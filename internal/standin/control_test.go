//go:build linux && cgo && !nocuda

package standin

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

func openControl(t *testing.T) *Control {
	c, ok := Open()
	if !ok {
		t.Skip("FERRUM_CUDA_DRIVER does not name the stand-in (make test-cuda-simt)")
	}
	return c
}

// without is a without what b holds.
func without(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// What runs on the CPU is what runs on a device.
func TestKernelsAreThoseOfTheManifest(t *testing.T) {
	c := openControl(t)
	m, err := cudakernels.Load()
	require.NoError(t, err)
	var compiled []string
	for _, k := range m.Kernels {
		compiled = append(compiled, k.Symbol)
	}
	var plain, variants []string
	for _, name := range c.Kernels() {
		if _, folder, ok := strings.Cut(name, "@"); ok {
			variants = append(variants, folder)
		} else if !strings.HasPrefix(name, "trial_") {
			plain = append(plain, name)
		}
	}
	require.Empty(t, without(compiled, plain), "only in the MANIFEST (make -C kernels/simt)")
	require.Empty(t, without(plain, compiled), "only in the stand-in (make kernels-cuda)")

	files, err := os.ReadDir("../../kernels/cuda/variants")
	require.NoError(t, err)
	var folders []string
	for _, f := range files {
		if f.IsDir() {
			folders = append(folders, f.Name())
		}
	}
	slices.Sort(variants)
	require.Equal(t, folders, slices.Compact(variants), "make -C kernels/simt")
}

func TestFailuresComeOnce(t *testing.T) {
	c := openControl(t)
	before := c.Counts()
	lib, err := driver.Open(Path())
	require.NoError(t, err)
	require.False(t, c.Lose(0))
	ctx, err := lib.Retain(0)
	require.NoError(t, err)

	c.FailAlloc(2)
	p, err := ctx.Alloc(100)
	require.NoError(t, err)
	_, err = ctx.AllocHost(100)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	mem, err := ctx.AllocHost(100)
	require.NoError(t, err)
	now := c.Counts()
	require.EqualValues(t, 1, now.Injected-before.Injected)
	require.EqualValues(t, 100, now.DeviceBytes-before.DeviceBytes)
	require.EqualValues(t, 100, now.HostBytes-before.HostBytes)
	require.EqualValues(t, 1, now.Contexts-before.Contexts)
	require.NoError(t, ctx.FreeHost(mem))
	require.NoError(t, ctx.Free(p))
	require.NotZero(t, c.Calls("cuMemAlloc_v2"))
	require.Zero(t, c.Calls("cuMemAlloc"))

	c.FailCall(2)
	_, _, err = ctx.MemInfo()
	require.Error(t, err)
	_, _, err = ctx.MemInfo()
	require.NoError(t, err)

	require.True(t, c.Lose(0))
	require.ErrorIs(t, ctx.Sync(0), backend.ErrLost)
	require.NoError(t, ctx.Release())
	after := c.Counts()
	require.Equal(t, before.Live(), after.Live())
	require.Equal(t, before.Misuse, after.Misuse)
	require.Equal(t, before.Abandoned, after.Abandoned)
	c.Seed(0)
	c.FailAlloc(0)
	c.FailLaunch(0)
}

// Streams and contexts that are gone cost nothing: a process that opens and closes many does not get slower.
func TestStreamsAreForgotten(t *testing.T) {
	c := openControl(t)
	lib, err := driver.Open(Path())
	require.NoError(t, err)
	before := c.Counts()
	for range 20 {
		ctx, err := lib.Retain(0)
		require.NoError(t, err)
		for range 3 {
			writer, err := ctx.NewStream()
			require.NoError(t, err)
			reader, err := ctx.NewStream()
			require.NoError(t, err)
			event, err := ctx.NewEvent(driver.Waiting)
			require.NoError(t, err)
			require.NoError(t, ctx.Record(event, writer))
			require.NoError(t, ctx.DestroyStream(writer))
			require.NoError(t, ctx.SyncEvent(event)) // and the writer is gone
			require.NoError(t, ctx.Wait(reader, event))
			require.NoError(t, ctx.Record(event, reader))
			require.NoError(t, ctx.SyncEvent(event))
			require.NoError(t, ctx.DestroyStream(reader))
			require.NoError(t, ctx.Sync(0))
			require.NoError(t, ctx.DestroyEvent(event))
			require.LessOrEqual(t, c.Counts().Remembered, before.Remembered)
		}
		require.NoError(t, ctx.Release())
	}
	after := c.Counts()
	require.LessOrEqual(t, after.Remembered, before.Remembered)
	require.Equal(t, before.Live(), after.Live())
	require.Equal(t, before.Misuse, after.Misuse)
}
