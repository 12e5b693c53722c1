//go:build linux && cgo && !nocuda

package cuda

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func second[T any](_ T, err error) error { return err }

// newStream returns a stream that is closed at the test's end.
func newStream(t testing.TB, be *Backend) backend.Stream {
	s, err := be.NewStream()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// bufferOf returns a buffer with the bytes of data, freed at the test's end.
func bufferOf[T backend.Number](t testing.TB, be *Backend, s backend.Stream, dt backend.DType, data []T) *Buffer {
	b, err := backend.AllocFrom[*Buffer](be, s, dt, data)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Free(b)) })
	return b
}

// content is the bytes of b.
func content(t testing.TB, be *Backend, s backend.Stream, b *Buffer) []byte {
	out := make([]byte, b.Bytes())
	require.NoError(t, be.Download(s, out, b, 0))
	return out
}

func TestAllocIsAlignedAndCounted(t *testing.T) {
	be := open(t)
	for _, n := range []int{0, 1, 63, 64, 4097, 1 << 20} {
		b, err := be.Alloc(backend.F16, n)
		require.NoError(t, err)
		require.Equal(t, n, b.Len())
		require.Equal(t, backend.F16, b.DType())
		require.EqualValues(t, 2*n, b.Bytes())
		require.Zero(t, b.Place().At%256)
		require.Equal(t, n == 0, b.Place().At == 0, "an empty buffer has no memory")
		info := be.Info()
		require.Equal(t, 1, info.Buffers)
		require.EqualValues(t, 2*n, info.Allocated)
		require.NoError(t, be.Free(b))
		require.ErrorIs(t, be.Free(b), backend.ErrFreed)
	}
	info := be.Info()
	require.Zero(t, info.Buffers)
	require.Zero(t, info.Allocated)
	require.Equal(t, "cuda:0", info.Name)
	require.Positive(t, info.FreeMemory)
	require.GreaterOrEqual(t, info.TotalMemory, info.FreeMemory)
}

// A request beyond the device's memory fails at once, and one that fails takes
// nothing.
func TestAllocErrors(t *testing.T) {
	be := open(t)
	for _, n := range []int{-1, math.MinInt} {
		require.ErrorIs(t, second(be.Alloc(backend.U32, n)), backend.ErrShape{})
	}
	require.ErrorIs(t, second(be.Alloc(backend.I64, math.MaxInt/4)), backend.ErrShape{}, "bytes overflow")
	require.ErrorIs(t, second(be.Alloc(backend.Invalid, 1)), backend.ErrShape{})
	err := second(be.Alloc(backend.Int8, math.MaxInt))
	require.ErrorIs(t, err, backend.ErrOutOfMemory)
	require.ErrorContains(t, err, "cuda:0: alloc: 9223372036854775807 bytes of ")
	require.ErrorIs(t, second(be.Alloc(backend.Int8, int(be.Info().TotalMemory)+1)), backend.ErrOutOfMemory)
	require.Zero(t, be.Info().Buffers)
	require.Zero(t, be.Info().Allocated)
}

// A buffer that is freed makes room for the next one, although its memory returns
// only when the work that uses it is done.
func TestFreedMemoryIsAllocatedAgain(t *testing.T) {
	be := open(t)
	if !emulated(be) {
		t.Skip("fills the device's memory, which others may use")
	}
	s := newStream(t, be)
	size := int(be.Info().FreeMemory) * 3 / 4
	for i := range 4 {
		b, err := be.Alloc(backend.Int8, size)
		require.NoError(t, err, "round %d", i)
		require.NoError(t, be.Fill(s, b, size-8, 8, float64(i)))
		require.NoError(t, be.Free(b))
	}
}

// What was freed counts as free memory at once: an allocation would get it.
func TestFreedMemoryIsFree(t *testing.T) {
	be := open(t)
	if !emulated(be) {
		t.Skip("others may use the device's memory")
	}
	s := newStream(t, be)
	before := be.Info().FreeMemory
	size := int(before) / 2
	b, err := be.Alloc(backend.Int8, size)
	require.NoError(t, err)
	require.LessOrEqual(t, be.Info().FreeMemory, before-int64(size))
	require.NoError(t, be.Fill(s, b, 0, 8, 1))
	require.NoError(t, be.Free(b))
	require.GreaterOrEqual(t, be.Info().FreeMemory, before)
}

func TestImport(t *testing.T) {
	be := open(t)
	s := newStream(t, be)
	b := bufferOf(t, be, s, backend.F32, []float32{1, 2, 3, 4, 5, 6, 7, 8})
	h, err := be.Handle(b)
	require.NoError(t, err)
	inner := backend.Handle{Addr: h.Addr + 8}
	alias, err := be.Import(inner, backend.F32, 6)
	require.NoError(t, err)
	require.EqualValues(t, b.Bytes(), be.Info().Allocated)
	require.Equal(t, 2, be.Info().Buffers)
	require.NoError(t, be.Fill(s, alias, 0, 1, 30))
	require.NoError(t, be.Copy(s, alias, 1, b, 0, 5), "overlapping through two buffers")
	require.NoError(t, be.Free(alias))
	require.Equal(t, backend.BytesOf([]float32{1, 2, 30, 1, 2, 30, 4, 5}), content(t, be, s, b))
	empty, err := be.Import(backend.Handle{}, backend.F32, 0)
	require.NoError(t, err)
	require.NoError(t, be.Free(empty))

	for name, c := range map[string]struct {
		h  backend.Handle
		dt backend.DType
		n  int
	}{
		"too long":         {h, backend.F32, 1 << 22},
		"unaligned":        {backend.Handle{Addr: h.Addr + 2}, backend.F32, 1},
		"unaligned i64":    {backend.Handle{Addr: h.Addr + 4}, backend.I64, 1},
		"negative":         {h, backend.F32, -1},
		"no type":          {h, backend.Invalid, 1},
		"a host slice":     {backend.HostHandle(make([]float32, 4)), backend.F32, 4},
		"an offset":        {backend.Handle{Addr: h.Addr, Offset: 4}, backend.F32, 1},
		"no device memory": {backend.Handle{Addr: 4096}, backend.F32, 1},
		"nothing":          {backend.Handle{}, backend.F32, 1},
	} {
		require.ErrorIs(t, second(be.Import(c.h, c.dt, c.n)), backend.ErrShape{}, name)
	}
	require.Equal(t, 1, be.Info().Buffers)
}

// Memory and streams of another device are told apart at run time.
func TestAnotherDevice(t *testing.T) {
	be := open(t)
	lib, err := library()
	require.NoError(t, err)
	if lib.Len() < 2 {
		t.Skip("needs two devices")
	}
	other, err := Open(1)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	require.Equal(t, "cuda:1", other.Info().Name)
	s := newStream(t, other)
	b := bufferOf(t, other, s, backend.F32, []float32{1, 2})
	h, err := other.Handle(b)
	require.NoError(t, err)
	require.ErrorIs(t, second(be.Import(h, backend.F32, 2)), backend.ErrForeign)
	require.ErrorIs(t, second(be.ImportStream(s.Handle())), backend.ErrForeign)
	require.ErrorIs(t, be.Free(b), backend.ErrForeign)
	require.ErrorIs(t, be.Fill(s, b, 0, 1, 0), backend.ErrForeign)
	require.Equal(t, backend.BytesOf([]float32{1, 2}), content(t, other, s, b))
}

// A second Backend of a device shares its context and none of its buffers.
func TestTwoBackendsOfADevice(t *testing.T) {
	a, b := open(t), open(t)
	s, theirs := newStream(t, b), newStream(t, a)
	buf := bufferOf(t, a, theirs, backend.U32, []uint32{7})
	require.NoError(t, theirs.Sync(), "events of one Backend do not order the other's streams")
	require.ErrorIs(t, b.Fill(s, buf, 0, 1, 0), backend.ErrForeign)
	h, err := a.Handle(buf)
	require.NoError(t, err)
	mine, err := b.Import(h, backend.U32, 1)
	require.NoError(t, err, "memory of the shared context")
	require.Equal(t, []byte{7, 0, 0, 0}, content(t, b, s, mine))
	require.NoError(t, b.Free(mine))
}

func TestOpenErrors(t *testing.T) {
	open(t)
	lib, err := library()
	require.NoError(t, err)
	for _, i := range []int{-1, lib.Len(), math.MaxInt} {
		require.ErrorIs(t, second(Open(i)), backend.ErrUnavailable{})
	}
	for _, name := range []string{"cuda:x", "cuda:-1", "cuda:1e3", "cuda:99"} {
		require.ErrorIs(t, second(backend.Open(name)), backend.ErrUnavailable{}, name)
	}
	for _, name := range []string{"cuda", "cuda:0"} {
		be, err := backend.Open(name)
		require.NoError(t, err)
		require.Equal(t, "cuda:0", be.Info().Name)
		require.NoError(t, be.Close())
	}
}

// Everything that a test forgot is given back by Close, and refused afterwards.
func TestAfterClose(t *testing.T) {
	be := openNow(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	imported, err := be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	e, err := be.NewEvent()
	require.NoError(t, err)
	b, err := backend.AllocFrom[*Buffer](be, s, backend.F32, make([]float32, 100))
	require.NoError(t, err)
	require.NoError(t, be.Fill(imported, b, 0, 10, 1))
	require.NoError(t, s.Record(e))
	require.NoError(t, be.Close())
	require.Zero(t, be.Info().Buffers)
	require.Zero(t, be.Info().Allocated)
	require.Zero(t, be.Info().FreeMemory)
	for name, err := range map[string]error{
		"close":  be.Close(),
		"alloc":  second(be.Alloc(backend.F32, 1)),
		"import": second(be.Import(backend.Handle{}, backend.F32, 0)),
		"handle": second(be.Handle(b)),
		"stream": second(be.NewStream()),
		"queue":  second(be.ImportStream(backend.Handle{})),
		"event":  second(be.NewEvent()),
		"plan":   second(be.PlanAttend(backend.AttendShape{})),
		"free":   be.Free(b), "fill": be.Fill(s, b, 0, 1, 0), "copy": be.Copy(s, b, 0, b, 0, 1),
		"upload": be.Upload(s, b, 0, make([]byte, 4)), "download": be.Download(s, make([]byte, 4), b, 0),
		"append": be.Append(s, backend.AppendParams[*Buffer]{}), "attend": be.Attend(s, backend.AttendParams[*Buffer]{}),
		"sync": s.Sync(), "record": s.Record(e), "wait": s.Wait(e), "close stream": s.Close(), "close queue": imported.Close(),
		"event done": second(e.Done()), "event sync": e.Sync(), "close event": e.Close(),
	} {
		require.ErrorIs(t, err, backend.ErrClosed, name)
	}
}

// Close takes what other goroutines are in the middle of: they finish or are told
// that the device is closed.
func TestCloseWhileInUse(t *testing.T) {
	for range 5 {
		be := openNow(t)
		var wait sync.WaitGroup
		for range 4 {
			s, err := be.NewStream()
			require.NoError(t, err)
			wait.Go(func() {
				data := make([]byte, 3<<20)
				for {
					b, err := be.Alloc(backend.Int8, len(data))
					if err == nil {
						err = be.Upload(s, b, 0, data)
					}
					if err == nil {
						err = be.Download(s, data, b, 0)
					}
					if err == nil {
						err = s.Sync()
					}
					if err == nil {
						err = be.Free(b)
					}
					if err != nil {
						if !isClosed(err) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		require.NoError(t, be.Close())
		wait.Wait()
	}
}
