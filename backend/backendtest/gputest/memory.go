package gputest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

func testAlloc[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	for _, n := range []int{0, 1, 63, 64, 4097, 1 << 20} {
		b, err := be.Alloc(backend.F16, n)
		require.NoError(t, err)
		require.Equal(t, n, b.Len())
		require.Equal(t, backend.F16, b.DType())
		require.EqualValues(t, 2*n, b.Bytes())
		require.Zero(t, b.Place().At%256)
		require.Equal(t, n == 0, b.Place() == launch.Place{}, "an empty buffer has no memory")
		info := be.Info()
		require.Equal(t, 1, info.Buffers)
		require.EqualValues(t, 2*n, info.Allocated)
		require.NoError(t, be.Free(b))
		require.ErrorIs(t, be.Free(b), backend.ErrFreed)
	}
	info := be.Info()
	require.Zero(t, info.Buffers)
	require.Zero(t, info.Allocated)
	require.Equal(t, d.name(), info.Name)
	require.Positive(t, info.FreeMemory)
	require.GreaterOrEqual(t, info.TotalMemory, info.FreeMemory)
}

// A request beyond the device's memory fails at once, and one that fails takes
// nothing.
func testAllocErrors[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	for _, n := range []int{-1, math.MinInt} {
		require.ErrorIs(t, second(be.Alloc(backend.U32, n)), backend.ErrArgument{})
	}
	require.ErrorIs(t, second(be.Alloc(backend.I64, math.MaxInt/4)), backend.ErrArgument{}, "bytes overflow")
	require.ErrorIs(t, second(be.Alloc(backend.Invalid, 1)), backend.ErrArgument{})
	err := second(be.Alloc(backend.Int8, math.MaxInt))
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.ErrorContains(t, err, "alloc: out of device memory: "+bytesize.String(math.MaxInt)+" requested")
	require.ErrorIs(t, second(be.Alloc(backend.Int8, int(be.Info().TotalMemory)+1)), backend.ErrOutOfMemory{})
	require.Zero(t, be.Info().Buffers)
	require.Zero(t, be.Info().Allocated)
}

// most is three quarters of what can be had in one buffer.
func most[B backend.Buffer](be backend.Backend[B]) int {
	return int(min(be.Info().FreeMemory, be.Caps().MaxBuffer)) * 3 / 4
}

// A buffer that is freed makes room for the next one, although its memory returns
// only when the work that uses it is done.
func testFreedMemory[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	if !Emulated(be.Info()) {
		t.Skip("fills the device's memory, which others may use")
	}
	s := newStream(t, be)
	size := most(be)
	for i := range 4 {
		b, err := be.Alloc(backend.Int8, size)
		require.NoError(t, err, "round %d", i)
		require.NoError(t, be.Fill(s, b, size-8, 8, float64(i)))
		require.NoError(t, be.Free(b))
	}
}

// What was freed counts as free memory at once: an allocation would get it.
func testFreedIsFree[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	if !Emulated(be.Info()) {
		t.Skip("others may use the device's memory")
	}
	s := newStream(t, be)
	before := be.Info().FreeMemory
	size := most(be)
	b, err := be.Alloc(backend.Int8, size)
	require.NoError(t, err)
	require.LessOrEqual(t, be.Info().FreeMemory, before-int64(size))
	require.NoError(t, be.Fill(s, b, 0, 8, 1))
	require.NoError(t, be.Free(b))
	require.GreaterOrEqual(t, be.Info().FreeMemory, before)
}
