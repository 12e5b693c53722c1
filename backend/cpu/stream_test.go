package cpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

func TestStreamsAndEvents(t *testing.T) {
	be, s := open(t, 1)
	other, foreign := open(t, 1)
	b := floats(t, be, backend.F32, make([]float32, 4))
	e, err := be.NewEvent()
	require.NoError(t, err)
	done, err := e.Done()
	require.NoError(t, err)
	require.True(t, done, "never recorded")
	require.NoError(t, s.Record(e))
	require.NoError(t, s.Wait(e))
	require.NoError(t, e.Sync())
	require.Equal(t, backend.Handle{}, s.Handle())

	var none *stream
	require.ErrorIs(t, be.Fill(nil, b, 0, 1, 0), backend.ErrArgument{})
	require.ErrorIs(t, be.Fill(none, b, 0, 1, 0), backend.ErrArgument{})
	require.ErrorIs(t, be.Fill(foreign, b, 0, 1, 0), backend.ErrOtherDevice)
	theirs, err := other.NewEvent()
	require.NoError(t, err)
	require.ErrorIs(t, s.Record(theirs), backend.ErrOtherDevice)
	require.ErrorIs(t, s.Wait(nil), backend.ErrArgument{})

	require.NoError(t, e.Close())
	require.ErrorIs(t, s.Record(e), backend.ErrClosed)
	require.ErrorIs(t, e.Close(), backend.ErrClosed)
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Close(), backend.ErrClosed)
	require.ErrorIs(t, s.Sync(), backend.ErrClosed)
	require.ErrorIs(t, be.Fill(s, b, 0, 1, 0), backend.ErrClosed)

	_, err = be.ImportStream(backend.Handle{Addr: 1})
	require.ErrorIs(t, err, backend.ErrUnsupported{})
	imported, err := be.ImportStream(backend.Handle{})
	require.NoError(t, err)
	require.NoError(t, be.Fill(imported, b, 0, 4, 7))
	require.Equal(t, []float32{7, 7, 7, 7}, values(b))
}
