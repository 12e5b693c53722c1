package gputest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// Exercise uses everything of a device that takes memory or enqueues, and checks what
// comes of it. It leaves nothing behind unless it fails.
func Exercise[B backend.Buffer](be backend.Backend[B]) (err error) {
	const n = 2<<20 + 4 // longer than the staging ring
	var s backend.Stream
	var e backend.Event
	var buffers []B
	defer func() { // also after a failure: what was made can be given back
		for _, b := range buffers {
			err = errors.Join(err, be.Free(b))
		}
		if e != nil {
			err = errors.Join(err, e.Close())
		}
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s, err = be.NewStream(); err != nil {
		return err
	}
	if e, err = be.NewEvent(); err != nil {
		return err
	}
	for range 2 {
		b, err := be.Alloc(backend.Int8, n)
		if err != nil {
			return err
		}
		buffers = append(buffers, b)
	}
	token, more, err := newToken(be)
	buffers = append(buffers, more...)
	if err != nil {
		return err
	}
	data := bytes.Repeat([]byte{1, 2, 3}, n/3)
	got, codes := make([]byte, n), make([]byte, tokenDim)
	for _, do := range []func() error{
		func() error { return be.Fill(s, buffers[0], 0, n, 7) },
		func() error { return be.Upload(s, buffers[0], 0, data) },
		func() error { return be.Copy(s, buffers[1], 0, buffers[0], 0, n) },
		func() error { return be.Copy(s, buffers[1], 3, buffers[1], 0, n-3) },
		func() error { return be.Fill(s, buffers[0], 0, n, 9) },
		func() error { return s.Record(e) },
		e.Sync,
		func() error { return s.Wait(e) },
		func() error { return be.Download(s, got, buffers[1], 0) },
		func() error { return be.Fill(s, token.K.Buf, 0, tokenDim, 2) },
		func() error { return be.Fill(s, token.Slots, 0, 1, 0) },
		func() error { return be.Append(s, token) },
		s.Sync,
		func() error { return be.Download(s, codes, token.Cache.V.Data, 0) },
		func() error { return exerciseBlocks(be, s, buffers[0], buffers[1]) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	if !bytes.Equal(data, got) || !bytes.Equal(codes, bytes.Repeat([]byte{127}, tokenDim)) {
		return errors.New("other bytes came back")
	}
	return nil
}

// Each kind of failure happens once wherever the work meets it, until there are no more
// places. After each the device does its work again, a lost one when it was opened again,
// and nothing is left of it.
func testFailures[B launch.Buffer](t *testing.T, d *Device[B]) {
	c := d.standin(t)
	for _, f := range c.Failures {
		t.Run(f.Name, func(t *testing.T) { d.everywhere(t, c, f, Exercise[B]) })
	}
}

// everywhere lets f meet each place of what exercise does.
func (d *Device[B]) everywhere(t *testing.T, c *Standin, f Failure, exercise func(backend.Backend[B]) error) {
	start := c.Live()
	step := 1
	if race.Enabled { // which makes everything slow and finds the same in a part of it
		step = 7
	}
	for n := 1; ; n += step {
		before := c.Injected()
		f.Next(n)
		be, err := d.Open(0)
		opened := err == nil
		if opened {
			err = exercise(be)
		}
		met := c.Injected() > before
		f.Next(0)
		if !met {
			require.NoError(t, err)
			require.NoError(t, be.Close())
			t.Logf("failures up to %d", n-step)
			require.Greater(t, n, 1, "none was met")
			break
		}
		if err != nil {
			require.True(t, f.Accepted(err), "failure %d: %v", n, err)
		}
		if errors.Is(err, backend.ErrLost) {
			require.NoError(t, be.Close(), "its loss was reported")
			opened = false
		}
		if !opened {
			be = d.openNow(t)
		}
		require.NoError(t, exercise(be), "after failure %d, which was %v", n, err)
		require.NoError(t, be.Close())
		require.Equal(t, start, c.Live(), "left after failure %d, which was %v", n, err)
		c.Check(t, err)
	}
}
