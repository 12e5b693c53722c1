package gputest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// fillGraph is a graph that sets all of b, a U32, to v.
func fillGraph[B backend.Buffer](t testing.TB, be backend.Backend[B], s backend.Stream, b B, v float64) backend.Graph {
	g, err := backend.Capture(be, s, func() error { return be.Fill(s, b, 0, b.Len(), v) })
	require.NoError(t, err)
	return g
}

// words is the elements of b, a U32.
func words[B backend.Buffer](t testing.TB, be backend.Backend[B], s backend.Stream, b B) []uint32 {
	out := make([]uint32, b.Len())
	require.NoError(t, backend.Download(be, s, out, b, 0))
	return out
}

// A device without graphs says so.
func testCapture[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	for _, capture := range []func(record func() error) (backend.Graph, error){
		func(record func() error) (backend.Graph, error) { return backend.Capture(be, s, record) },
		func(record func() error) (backend.Graph, error) { return backend.Capture(backend.Erase(be), s, record) },
	} {
		g, err := capture(func() error { return nil })
		if !d.Graphs {
			require.ErrorIs(t, err, backend.ErrUnsupported{})
			require.Nil(t, g)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, g.Launch(), "of nothing")
		require.NoError(t, g.Close())
	}
}

// What a call was given counts, not what became of it; and nothing runs in a capture.
func testFrozen[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	b := bufferOf(t, be, s, backend.U32, []uint32{1, 2, 3, 4})
	v, n := 7.0, 2
	g, err := backend.Capture(be, s, func() error {
		return errors.Join(be.Fill(s, b, 0, n, v), be.Copy(s, b, n, b, 0, 1))
	})
	require.NoError(t, err)
	v, n = 8, 3
	require.Equal(t, []uint32{1, 2, 3, 4}, words(t, be, s, b))
	require.NoError(t, g.Launch())
	require.NoError(t, be.Fill(s, b, 1, 1, 9))
	require.Equal(t, []uint32{7, 9, 7, 4}, words(t, be, s, b))
	require.NoError(t, g.Launch())
	require.Equal(t, []uint32{7, 7, 7, 4}, words(t, be, s, b))
	require.NoError(t, g.Close())
}

// What a graph cannot repeat is refused while it is captured, and harms neither the
// capture nor the stream; what is of no stream, or of another, goes on.
func testRefusedInCapture[B launch.Buffer](t *testing.T, d *Device[B]) {
	be, caller := d.open(t), d.open(t)
	imported, err := be.ImportStream(newStream(t, caller).Handle())
	require.NoError(t, err)
	t.Run("own", func(t *testing.T) { refusedInCapture(t, be, newStream(t, be)) })
	t.Run("imported", func(t *testing.T) { refusedInCapture(t, be, imported) })
	require.NoError(t, imported.Close())
}

func refusedInCapture[B backend.Buffer](t *testing.T, be backend.Backend[B], s backend.Stream) {
	other := newStream(t, be)
	b := bufferOf(t, be, s, backend.U32, []uint32{1, 2, 3, 4})
	e, err := be.NewEvent()
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	earlier := fillGraph(t, be, s, b, 1)
	refused := map[string]func() error{
		"upload":       func() error { return be.Upload(s, b, 0, make([]byte, 4)) },
		"download":     func() error { return be.Download(s, make([]byte, 4), b, 0) },
		"nothing":      func() error { return be.Download(s, nil, b, 0) },
		"overlap":      func() error { return be.Copy(s, b, 1, b, 0, 2) },
		"sync":         s.Sync,
		"record":       func() error { return s.Record(e) },
		"wait":         func() error { return s.Wait(e) },
		"close":        s.Close,
		"launch":       earlier.Launch,
		"close graph":  earlier.Close,
		"capture":      func() error { return second(backend.Capture(be, s, func() error { return nil })) },
		"erased erase": func() error { return backend.Erase(be).Upload(s, backend.Wrap(b), 0, make([]byte, 4)) },
	}
	g, err := backend.Capture(be, s, func() error {
		for name, do := range refused {
			err := do()
			require.ErrorIs(t, err, backend.ErrCapture{}, name)
			require.ErrorContains(t, err, "the stream is being captured into a graph: ", name)
		}
		scratch, err := be.Alloc(backend.U32, 100)
		require.NoError(t, err)
		require.NoError(t, be.Fill(other, scratch, 0, 100, 3))
		require.NoError(t, other.Record(e))
		require.NoError(t, e.Sync())
		require.Equal(t, []uint32{3}, words(t, be, other, scratch)[:1])
		require.NoError(t, be.Free(scratch))
		more, err := be.NewStream()
		require.NoError(t, err)
		require.NoError(t, more.Close())
		return be.Fill(s, b, 0, 4, 5)
	})
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 2, 3, 4}, words(t, be, s, b))
	require.NoError(t, g.Launch())
	require.Equal(t, []uint32{5, 5, 5, 5}, words(t, be, s, b))
	require.NoError(t, earlier.Launch())
	require.Equal(t, []uint32{1, 1, 1, 1}, words(t, be, s, b))
	for name, do := range refused {
		if name != "close" && name != "close graph" && name != "capture" {
			require.NoError(t, do(), name)
		}
	}
	require.NoError(t, g.Close())
	require.NoError(t, earlier.Close())
}

// A record that fails, or panics, leaves no graph and a stream as it was.
func testFailedRecord[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	b := bufferOf(t, be, s, backend.U32, []uint32{1})
	enough := errors.New("enough")
	record := func() error {
		require.NoError(t, be.Fill(s, b, 0, 1, 2))
		return enough
	}
	g, err := backend.Capture(be, s, record)
	require.Equal(t, enough, err)
	require.Nil(t, g)
	require.PanicsWithValue(t, "away", func() {
		_, _ = backend.Capture(be, s, func() error {
			require.NoError(t, be.Fill(s, b, 0, 1, 2))
			panic("away")
		})
	})
	_, err = backend.Capture(be, s, func() error { return be.Fill(s, b, 0, 2, 1) })
	require.ErrorIs(t, err, backend.ErrArgument{})
	require.Equal(t, []uint32{1}, words(t, be, s, b))
	require.ErrorIs(t, second(backend.Capture(be, d.NoStream, record)), backend.ErrArgument{})

	closed := newStream(t, d.open(t))
	require.ErrorIs(t, second(backend.Capture(be, closed, record)), backend.ErrOtherDevice)
	g = fillGraph(t, be, s, b, 3)
	require.NoError(t, g.Launch())
	require.Equal(t, []uint32{3}, words(t, be, s, b))
	require.NoError(t, g.Close())
}
