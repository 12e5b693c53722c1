package gputest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

func testImport[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	b := bufferOf(t, be, s, backend.F32, []float32{1, 2, 3, 4, 5, 6, 7, 8})
	h, err := be.Handle(b)
	require.NoError(t, err)
	alias, err := be.Import(d.Within(h, 8), backend.F32, 6)
	require.NoError(t, err)
	require.EqualValues(t, b.Bytes(), be.Info().Allocated)
	require.Equal(t, 2, be.Info().Buffers)
	again, err := be.Handle(alias)
	require.NoError(t, err)
	require.Equal(t, d.Within(h, 8), again)
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
		"too long":      {h, backend.F32, 1 << 22},
		"unaligned":     {d.Within(h, 2), backend.F32, 1},
		"unaligned i64": {d.Within(h, 4), backend.I64, 1},
		"negative":      {h, backend.F32, -1},
		"no type":       {h, backend.Invalid, 1},
		"nothing":       {backend.Handle{}, backend.F32, 1},
	} {
		require.ErrorIs(t, second(be.Import(c.h, c.dt, c.n)), backend.ErrArgument{}, name)
	}
	err = second(be.Import(backend.HostHandle(make([]float32, 4)), backend.F32, 4))
	if be.Info().HostVisible {
		require.ErrorIs(t, err, backend.ErrUnsupported{}, "a slice of the host's")
	} else {
		require.ErrorIs(t, err, backend.ErrArgument{}, "a slice of the host's")
	}
	require.Equal(t, 1, be.Info().Buffers)
}

// An imported queue is used, ordered with ours by events, and stays the caller's, who is
// another Backend of the device here.
func testImportStream[B launch.Buffer](t *testing.T, d *Device[B]) {
	be, caller := d.open(t), d.open(t)
	s, runner := newStream(t, be), newStream(t, caller)
	e, err := be.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	const n = 1 << 16
	for i, h := range []backend.Handle{runner.Handle(), {}} {
		imported, err := be.ImportStream(h)
		require.NoError(t, err)
		if h.Addr != 0 {
			require.Equal(t, h, imported.Handle())
		}
		b, err := be.Alloc(backend.U32, n)
		require.NoError(t, err)
		require.NoError(t, be.Fill(imported, b, 0, n, float64(i+1)))
		require.NoError(t, imported.Record(e))
		require.NoError(t, s.Wait(e))
		require.NoError(t, be.Copy(s, b, 1, b, 0, 1), "on our stream, after the fill")
		require.NoError(t, be.Free(b), "while it is in use")
		require.NoError(t, imported.Close())
		require.ErrorIs(t, imported.Sync(), backend.ErrClosed)
		require.NoError(t, s.Sync())
	}
	require.NoError(t, runner.Sync(), "still there")
	require.ErrorIs(t, second(be.ImportStream(backend.Handle{Host: make([]byte, 1)})), backend.ErrArgument{})
	require.ErrorIs(t, second(be.ImportStream(backend.Handle{Addr: runner.Handle().Addr, Offset: 1})), backend.ErrArgument{})
}

// Memory and streams of another device are told apart at run time.
func testAnotherDevice[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	other, err := d.Open(1)
	if err != nil {
		require.ErrorIs(t, err, backend.ErrUnavailable{})
		t.Skip("needs two devices")
	}
	t.Cleanup(func() { require.NoError(t, other.Close()) })
	require.Equal(t, d.Kind+":1", other.Info().Name)
	s := newStream(t, other)
	b := bufferOf(t, other, s, backend.F32, []float32{1, 2})
	h, err := other.Handle(b)
	require.NoError(t, err)
	require.ErrorIs(t, second(be.Import(h, backend.F32, 2)), backend.ErrOtherDevice)
	require.ErrorIs(t, second(be.ImportStream(s.Handle())), backend.ErrOtherDevice)
	require.ErrorIs(t, be.Free(b), backend.ErrOtherDevice)
	require.ErrorIs(t, be.Fill(s, b, 0, 1, 0), backend.ErrOtherDevice)
	require.Equal(t, backend.BytesOf([]float32{1, 2}), content(t, other, s, b))
}

// A second Backend of a device shares its memory and none of its buffers.
func testTwoBackends[B launch.Buffer](t *testing.T, d *Device[B]) {
	a, b := d.open(t), d.open(t)
	s, theirs := newStream(t, b), newStream(t, a)
	buf := bufferOf(t, a, theirs, backend.U32, []uint32{7})
	require.NoError(t, theirs.Sync(), "events of one Backend do not order the other's streams")
	require.ErrorIs(t, b.Fill(s, buf, 0, 1, 0), backend.ErrOtherDevice)
	h, err := a.Handle(buf)
	require.NoError(t, err)
	mine, err := b.Import(h, backend.U32, 1)
	require.NoError(t, err)
	require.Equal(t, []byte{7, 0, 0, 0}, content(t, b, s, mine))
	require.NoError(t, b.Free(mine))
}
