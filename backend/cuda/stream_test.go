//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func isClosed(err error) bool { return errors.Is(err, backend.ErrClosed) }

func TestStreamsAndEvents(t *testing.T) {
	be, other := open(t), open(t)
	s, foreign := newStream(t, be), newStream(t, other)
	b := bufferOf(t, be, s, backend.F32, make([]float32, 4))
	e, err := be.NewEvent()
	require.NoError(t, err)
	done, err := e.Done()
	require.NoError(t, err)
	require.True(t, done, "never recorded")
	require.NoError(t, s.Record(e))
	require.NoError(t, s.Wait(e))
	require.NoError(t, e.Sync())
	done, err = e.Done()
	require.NoError(t, err)
	require.True(t, done)
	require.NotZero(t, s.Handle().Addr)

	var none *stream
	var noEvent *event
	require.ErrorIs(t, be.Fill(nil, b, 0, 1, 0), backend.ErrShape{})
	require.ErrorIs(t, be.Fill(none, b, 0, 1, 0), backend.ErrShape{})
	require.ErrorIs(t, be.Fill(foreign, b, 0, 1, 0), backend.ErrForeign)
	theirs, err := other.NewEvent()
	require.NoError(t, err)
	require.ErrorIs(t, s.Record(theirs), backend.ErrForeign)
	require.ErrorIs(t, s.Wait(nil), backend.ErrShape{})
	require.ErrorIs(t, s.Wait(noEvent), backend.ErrShape{})
	require.NoError(t, theirs.Close())

	require.NoError(t, e.Close())
	require.ErrorIs(t, s.Record(e), backend.ErrClosed)
	require.ErrorIs(t, s.Wait(e), backend.ErrClosed)
	require.ErrorIs(t, second(e.Done()), backend.ErrClosed)
	require.ErrorIs(t, e.Sync(), backend.ErrClosed)
	require.ErrorIs(t, e.Close(), backend.ErrClosed)
}

// An imported queue is used, ordered with ours by events, and stays the caller's.
func TestImportStream(t *testing.T) {
	be := open(t)
	s := newStream(t, be)
	runner, err := be.ctx.NewStream()
	require.NoError(t, err)
	defer func() { require.NoError(t, be.ctx.DestroyStream(runner)) }()
	e, err := be.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	const n = 1 << 16
	for i, h := range []backend.Handle{{Addr: uintptr(runner)}, {}, {Addr: 1}} {
		imported, err := be.ImportStream(h)
		require.NoError(t, err)
		require.Equal(t, h, imported.Handle())
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
	require.NoError(t, be.ctx.Sync(runner), "still there")
	require.ErrorIs(t, second(be.ImportStream(backend.Handle{Addr: perThread})), backend.ErrUnsupported{})
	require.ErrorIs(t, second(be.ImportStream(backend.Handle{Host: make([]byte, 1)})), backend.ErrShape{})
	require.ErrorIs(t, second(be.ImportStream(backend.Handle{Addr: uintptr(runner), Offset: 1})), backend.ErrShape{})
}

// What enqueues allocates nothing on the Go heap once a stream has its staging memory.
func TestTransfersAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	be := open(t)
	s := newStream(t, be)
	data := make([]byte, 3<<20)
	b := bufferOf(t, be, s, backend.Int8, data)
	packed := bufferOf(t, be, s, backend.Int4, data[:64])
	e, err := be.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	for name, do := range map[string]func() error{
		"upload":      func() error { return be.Upload(s, b, 1, data[:1000]) },
		"long upload": func() error { return be.Upload(s, b, 0, data) },
		"download":    func() error { return be.Download(s, data, b, 0) },
		"fill":        func() error { return be.Fill(s, b, 5, 77, 3) },
		"copy":        func() error { return be.Copy(s, b, 0, b, 1000, 999) },
		"move":        func() error { return be.Copy(s, b, 0, b, 1, 1<<20) },
		"half bytes":  func() error { return be.Copy(s, packed, 0, packed, 16, 9) },
		"record":      func() error { return s.Record(e) },
		"wait":        func() error { return s.Wait(e) },
		"done":        func() error { return second(e.Done()) },
		"sync":        s.Sync,
	} {
		require.NoError(t, do(), name)
		require.Zero(t, testing.AllocsPerRun(10, func() {
			if do() != nil {
				t.Fail()
			}
		}), "allocations of %s", name)
	}
}
