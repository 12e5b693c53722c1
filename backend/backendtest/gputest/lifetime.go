package gputest

import (
	"errors"
	"maps"
	"reflect"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

func testStreamsAndEvents[B launch.Buffer](t *testing.T, d *Device[B]) {
	be, other := d.open(t), d.open(t)
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

	require.ErrorIs(t, be.Fill(nil, b, 0, 1, 0), backend.ErrArgument{})
	require.ErrorIs(t, be.Fill(d.NoStream, b, 0, 1, 0), backend.ErrArgument{})
	require.ErrorIs(t, be.Fill(foreign, b, 0, 1, 0), backend.ErrOtherDevice)
	theirs, err := other.NewEvent()
	require.NoError(t, err)
	require.ErrorIs(t, s.Record(theirs), backend.ErrOtherDevice)
	require.ErrorIs(t, s.Wait(nil), backend.ErrArgument{})
	require.ErrorIs(t, s.Wait(d.NoEvent), backend.ErrArgument{})
	require.NoError(t, theirs.Close())

	require.NoError(t, e.Close())
	require.ErrorIs(t, s.Record(e), backend.ErrClosed)
	require.ErrorIs(t, s.Wait(e), backend.ErrClosed)
	require.ErrorIs(t, second(e.Done()), backend.ErrClosed)
	require.ErrorIs(t, e.Sync(), backend.ErrClosed)
	require.ErrorIs(t, e.Close(), backend.ErrClosed)
}

// members is one of everything that a device has, with a little work between them.
type members[B backend.Buffer] struct {
	be          backend.Backend[B]
	s, imported backend.Stream
	e           backend.Event
	b           B
}

func newMembers[B backend.Buffer](t testing.TB, be backend.Backend[B]) *members[B] {
	m := &members[B]{be: be}
	var err error
	m.s, err = be.NewStream()
	require.NoError(t, err)
	m.imported, err = be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	m.e, err = be.NewEvent()
	require.NoError(t, err)
	m.b, err = backend.AllocFrom(be, m.s, backend.F32, make([]float32, 1000))
	require.NoError(t, err)
	row, buffers, err := newToken(be)
	require.NoError(t, err)
	for _, s := range []backend.Stream{m.s, m.imported} { // which keep something of it
		require.NoError(t, be.Fill(s, row.K.Buf, 0, tokenDim, 2))
		require.NoError(t, be.Fill(s, row.Slots, 0, 1, 0))
		require.NoError(t, be.Append(s, row))
		require.NoError(t, s.Sync())
	}
	for _, b := range buffers {
		require.NoError(t, be.Free(b))
	}
	require.NoError(t, be.Fill(m.imported, m.b, 0, 10, 1))
	require.NoError(t, m.imported.Sync())
	require.NoError(t, be.Fill(m.s, m.b, 0, 1000, 1))
	require.NoError(t, m.s.Record(m.e))
	return m
}

// uses is what everything says, but for closing the device.
func (m *members[B]) uses() map[string]error {
	be, s, e, b := m.be, m.s, m.e, m.b
	said := empty(be, s)
	maps.Copy(said, map[string]error{
		"alloc":  second(be.Alloc(backend.F32, 1)),
		"import": second(be.Import(backend.Handle{}, backend.F32, 0)),
		"handle": second(be.Handle(b)),
		"stream": second(be.NewStream()),
		"queue":  second(be.ImportStream(backend.Handle{})),
		"event":  second(be.NewEvent()),
		"plan":   second(be.PlanAttend(backend.AttendShape{})),
		"free":   be.Free(b), "fill": be.Fill(s, b, 0, 1, 0), "copy": be.Copy(s, b, 0, b, 0, 1),
		"upload": be.Upload(s, b, 0, make([]byte, 4)), "download": be.Download(s, make([]byte, 4), b, 0),
		"sync": s.Sync(), "another stream": m.imported.Sync(), "record": s.Record(e), "wait": s.Wait(e),
		"event done": second(e.Done()), "event sync": e.Sync(),
		"close event": e.Close(), "close stream": s.Close(), "close queue": m.imported.Close(),
	})
	return said
}

// empty is what every operation says to parameters that are zero.
func empty[B backend.Buffer](be backend.Backend[B], s backend.Stream) map[string]error {
	said := map[string]error{}
	contract := reflect.TypeFor[backend.Backend[B]]()
	for i := range contract.NumMethod() {
		m := contract.Method(i)
		if m.Type.NumIn() != 2 || m.Type.In(1).Kind() != reflect.Struct {
			continue
		}
		in := []reflect.Value{reflect.ValueOf(s), reflect.Zero(m.Type.In(1))}
		said[m.Name], _ = reflect.ValueOf(be).MethodByName(m.Name).Call(in)[0].Interface().(error)
	}
	return said
}

// Everything that a program forgot is given back by Close, and refused afterwards.
func testAfterClose[B launch.Buffer](t *testing.T, d *Device[B]) {
	m := newMembers(t, d.openNow(t))
	require.NoError(t, m.be.Close())
	require.Zero(t, m.be.Info().Buffers)
	require.Zero(t, m.be.Info().Allocated)
	require.Zero(t, m.be.Info().FreeMemory)
	require.ErrorIs(t, m.be.Close(), backend.ErrClosed)
	for name, err := range m.uses() {
		require.ErrorIs(t, err, backend.ErrClosed, name)
	}
}

// Close takes what other goroutines are in the middle of: they finish or are told
// that the device is closed.
func testCloseWhileInUse[B launch.Buffer](t *testing.T, d *Device[B]) {
	for range 5 {
		be := d.openNow(t)
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
						if !errors.Is(err, backend.ErrClosed) {
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
