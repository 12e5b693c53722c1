package cpu

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func TestAllocIsAlignedAndCounted(t *testing.T) {
	be, _ := open(t, 1)
	for _, n := range []int{0, 1, 63, 64, 4097} {
		b, err := be.Alloc(backend.F16, n)
		require.NoError(t, err)
		require.Equal(t, n, b.Len())
		require.Equal(t, backend.F16, b.DType())
		require.EqualValues(t, 2*n, b.Bytes())
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(b.mem)))%64)
		info := be.Info()
		require.Equal(t, 1, info.Buffers)
		require.EqualValues(t, 2*n, info.Allocated)
		require.Equal(t, info.TotalMemory-info.Allocated, info.FreeMemory)
		require.NoError(t, be.Free(b))
		require.ErrorIs(t, be.Free(b), backend.ErrFreed)
		require.Nil(t, b.mem)
	}
	require.Zero(t, be.Info().Buffers)
	require.Zero(t, be.Info().Allocated)
}

func TestAllocErrors(t *testing.T) {
	be, err := Open(Options{Threads: 1, MaxBytes: 1000})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	require.EqualValues(t, 1000, be.Caps().MaxBuffer)

	half, err := be.Alloc(backend.F32, 125)
	require.NoError(t, err)
	_, err = be.Alloc(backend.F32, 126)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.ErrorContains(t, err, "cpu: backend: alloc: out of device memory: 504 B requested, at most 500 B available")
	rest, err := be.Alloc(backend.F32, 125) // the failure took nothing
	require.NoError(t, err)
	require.NoError(t, be.Free(half))
	require.NoError(t, be.Free(rest))

	for _, n := range []int{-1, math.MinInt} {
		_, err = be.Alloc(backend.U32, n)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	_, err = be.Alloc(backend.I64, math.MaxInt/4)
	require.ErrorIs(t, err, backend.ErrArgument{}, "bytes overflow")
	_, err = be.Alloc(backend.Int8, math.MaxInt)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	_, err = be.Alloc(backend.Invalid, 1)
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.Zero(t, be.Info().Buffers)
}

// The system, not only the budget, says no.
func TestAllocBeyondTheAddressSpace(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("an int of 32 bits is not beyond the address space")
	}
	be, err := Open(Options{Threads: 1, MaxBytes: math.MaxInt64})
	require.NoError(t, err)
	defer func() { require.NoError(t, be.Close()) }()
	require.Zero(t, be.Info().TotalMemory, "unlimited")
	for _, n := range []int{math.MaxInt, math.MaxInt / 2} {
		_, err = be.Alloc(backend.Int8, n)
		require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	}
	require.Zero(t, be.Info().Allocated)
}

func TestOpenOptions(t *testing.T) {
	for _, o := range []Options{{Threads: -1}, {MaxBytes: -1}, {Threads: 1 << 20}} {
		_, err := Open(o)
		require.ErrorIs(t, err, backend.ErrArgument{})
	}
	be, err := Open(Options{})
	require.NoError(t, err)
	require.Positive(t, be.Info().ComputeUnits)
	require.NotEmpty(t, be.Info().Device)
	require.Len(t, be.Caps().Formats, 3*12*11)
	for i, f := range be.Caps().Formats {
		require.True(t, f.Act.Float(), f)
		require.Equal(t, i < 3*11, f.K == f.V, "the usual ones come first: %v", f)
	}
	require.Equal(t, []backend.DType{backend.Int8, backend.Int8Asym, backend.Int4, backend.Int4G64, backend.MXFP4}, be.Caps().Int8Query)
	require.NoError(t, be.Close())
}

func TestImportAliasesBothWays(t *testing.T) {
	be, s := open(t, 1)
	host := []float32{1, 2, 3, 4}
	b, err := be.Import(backend.HostHandle(host), backend.F32, 3)
	require.NoError(t, err)
	require.Zero(t, be.Info().Allocated)
	require.Equal(t, 1, be.Info().Buffers)

	host[1] = 20
	got := make([]float32, 3)
	require.NoError(t, backend.Download(backend.Backend[*Buffer](be), s, got, b, 0))
	require.Equal(t, []float32{1, 20, 3}, got)
	require.NoError(t, be.Fill(s, b, 2, 1, 30))
	require.Equal(t, []float32{1, 20, 30, 4}, host)

	h, err := be.Handle(b)
	require.NoError(t, err)
	require.Equal(t, backend.BytesOf(host)[:12], h.Host)
	require.Equal(t, 12, cap(h.Host), "the neighbour is out of reach")
	again, err := be.Import(h, backend.U32, 3)
	require.NoError(t, err)
	require.NoError(t, be.Free(b))
	require.NoError(t, be.Free(again))
	require.Equal(t, []float32{1, 20, 30, 4}, host, "imported memory is not freed")
}

func TestImportErrors(t *testing.T) {
	be, _ := open(t, 1)
	host := make([]int64, 4)
	mem := backend.BytesOf(host)
	for _, c := range []struct {
		h  backend.Handle
		dt backend.DType
		n  int
	}{
		{backend.Handle{Host: mem}, backend.I64, 5},
		{backend.Handle{Host: mem[1:]}, backend.F16, 1},
		{backend.Handle{Host: mem[4:]}, backend.I64, 1},
		{backend.Handle{Host: mem}, backend.I64, -1},
		{backend.Handle{Host: mem}, backend.Invalid, 1},
		{backend.Handle{Addr: 64}, backend.I64, 0},
		{backend.Handle{Host: mem, Offset: 8}, backend.I64, 1},
		{backend.Handle{}, backend.F32, 1},
	} {
		_, err := be.Import(c.h, c.dt, c.n)
		require.ErrorIs(t, err, backend.ErrArgument{}, "%v", c)
	}
	b, err := be.Import(backend.Handle{Host: mem[1:]}, backend.Int8, 3)
	require.NoError(t, err)
	empty, err := be.Import(backend.Handle{}, backend.F32, 0)
	require.NoError(t, err)
	require.NoError(t, be.Free(b))
	require.NoError(t, be.Free(empty))
}

func TestOperandsThatAreNoLiveBuffers(t *testing.T) {
	be, s := open(t, 1)
	other, _ := open(t, 1)
	b := floats(t, be, backend.F32, make([]float32, 4))
	foreign := floats(t, other, backend.F32, make([]float32, 4))
	freed := floats(t, be, backend.F32, make([]float32, 4))
	require.NoError(t, be.Free(freed))
	for _, c := range []struct {
		b    *Buffer
		want error
	}{{nil, backend.ErrArgument{}}, {foreign, backend.ErrOtherDevice}, {freed, backend.ErrFreed}} {
		require.ErrorIs(t, be.Free(c.b), c.want)
		require.ErrorIs(t, be.Fill(s, c.b, 0, 1, 0), c.want)
		require.ErrorIs(t, be.Upload(s, c.b, 0, make([]byte, 4)), c.want)
		require.ErrorIs(t, be.Download(s, make([]byte, 4), c.b, 0), c.want)
		require.ErrorIs(t, be.Copy(s, b, 0, c.b, 0, 1), c.want)
		require.ErrorIs(t, be.Copy(s, c.b, 0, b, 0, 1), c.want)
		_, err := be.Handle(c.b)
		require.ErrorIs(t, err, c.want)
		_, err = be.HostBytes(c.b)
		require.ErrorIs(t, err, c.want)
		require.ErrorIs(t, be.Merge(s, backend.MergeParams[*Buffer]{Parts: 1, Heads: 1, Dim: 1, In: c.b, LSE: b, Out: backend.Dense(b)}), c.want)
		require.ErrorIs(t, be.Attend(s, backend.AttendParams[*Buffer]{Cache: backend.CacheView[*Buffer]{K: backend.Plane[*Buffer]{Data: c.b}}}), c.want)
	}
}

func TestAfterClose(t *testing.T) {
	be, s := open(t, 2)
	b := floats(t, be, backend.F32, make([]float32, 4))
	e, err := be.NewEvent()
	require.NoError(t, err)
	require.NoError(t, be.Close())
	require.Zero(t, be.Info().Buffers, "close frees")
	require.Zero(t, be.Info().Allocated)
	require.ErrorIs(t, be.Close(), backend.ErrClosed)
	for name, err := range map[string]error{
		"alloc":  second(be.Alloc(backend.F32, 1)),
		"import": second(be.Import(backend.Handle{}, backend.F32, 0)),
		"handle": second(be.Handle(b)),
		"bytes":  second(be.HostBytes(b)),
		"stream": second(be.NewStream()),
		"queue":  second(be.ImportStream(backend.Handle{})),
		"event":  second(be.NewEvent()),
		"plan":   second(be.PlanAttend(backend.AttendShape{})),
		"free":   be.Free(b), "fill": be.Fill(s, b, 0, 1, 0), "copy": be.Copy(s, b, 0, b, 0, 1),
		"append": be.Append(s, backend.AppendParams[*Buffer]{}), "attend": be.Attend(s, backend.AttendParams[*Buffer]{}),
		"sync": s.Sync(), "record": s.Record(e), "wait": s.Wait(e), "close stream": s.Close(), "event sync": e.Sync(), "close event": e.Close(),
	} {
		require.ErrorIs(t, err, backend.ErrClosed, name)
	}
	_, err = e.Done()
	require.ErrorIs(t, err, backend.ErrClosed)
}

func second[T any](_ T, err error) error { return err }
