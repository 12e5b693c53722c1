package gputest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// exerciseGraph captures the append of a token, launches it and looks at what it wrote. It
// leaves nothing behind unless it fails.
func exerciseGraph[B backend.Buffer](be backend.Backend[B]) (err error) {
	s, err := be.NewStream()
	if err != nil {
		return err
	}
	token, buffers, err := newToken(be)
	var g backend.Graph
	defer func() {
		if g != nil {
			err = errors.Join(err, g.Close())
		}
		for _, b := range buffers {
			err = errors.Join(err, be.Free(b))
		}
		err = errors.Join(err, s.Close())
	}()
	if err != nil {
		return err
	}
	codes := make([]byte, tokenDim)
	for _, do := range []func() error{
		func() error { return be.Fill(s, token.K.Buf, 0, tokenDim, 2) },
		func() error { return be.Fill(s, token.Slots, 0, 1, 0) },
		func() (err error) {
			g, err = backend.Capture(be, s, func() error { return be.Append(s, token) })
			return err
		},
		func() error { return be.Fill(s, token.Cache.V.Data, 0, tokenDim, 0) },
		func() error { return g.Launch() },
		s.Sync,
		func() error { return be.Download(s, codes, token.Cache.V.Data, 0) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	if codes[0] != 127 || codes[tokenDim-1] != 127 {
		return errors.New("other bytes came back")
	}
	return nil
}

// Whatever fails while a graph is made and used leaves nothing of it.
func testGraphFailures[B launch.Buffer](t *testing.T, d *Device[B]) {
	c := d.standin(t)
	for _, f := range c.Failures {
		t.Run(f.Name, func(t *testing.T) { d.everywhere(t, c, f, exerciseGraph[B]) })
	}
}

// A lost device launches nothing, and its graphs are given back when it is closed, also
// one that was being captured.
func testGraphLost[B launch.Buffer](t *testing.T, d *Device[B]) {
	c := d.standin(t)
	start := c.Live()
	be := d.openNow(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 1)
	require.NoError(t, err)
	g := fillGraph(t, be, s, b, 1)
	other, err := be.NewStream()
	require.NoError(t, err)
	_, err = backend.Capture(be, s, func() error {
		require.NoError(t, be.Fill(s, b, 0, 1, 1))
		c.Lose(0)
		require.ErrorIs(t, other.Sync(), backend.ErrLost)
		return be.Fill(s, b, 0, 1, 1)
	})
	require.ErrorIs(t, err, backend.ErrLost)
	require.ErrorIs(t, g.Launch(), backend.ErrLost)
	require.ErrorIs(t, g.Close(), backend.ErrLost)
	require.ErrorIs(t, second(backend.Capture(be, s, func() error { return nil })), backend.ErrLost)
	require.NoError(t, be.Close())
	c.Restore(0)
	require.Equal(t, start, c.Live())
	d.works(t)
}
