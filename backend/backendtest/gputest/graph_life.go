package gputest

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// A graph whose buffer is gone says which, and is launched no more; other buffers may go.
func testFreedInGraph[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	alloc := func() B {
		b, err := be.Alloc(backend.U32, 100)
		require.NoError(t, err)
		return b
	}
	owner := bufferOf(t, be, s, backend.U32, make([]uint32, 100))
	h, err := be.Handle(owner)
	require.NoError(t, err)
	imported, err := be.Import(h, backend.U32, 100)
	require.NoError(t, err)
	for name, b := range map[string]B{"own": alloc(), "imported": imported} {
		other := alloc()
		g := fillGraph(t, be, s, b, 1)
		require.NoError(t, g.Launch())
		require.NoError(t, be.Free(other))
		require.NoError(t, g.Launch())
		require.NoError(t, be.Free(b), "while launches are under way")
		err := g.Launch()
		require.ErrorIs(t, err, backend.ErrFreed, name)
		require.ErrorContains(t, err, "launch graph: destination of its fill: ")
		require.NoError(t, s.Sync())
		require.NoError(t, g.Close())
		require.ErrorIs(t, g.Launch(), backend.ErrClosed)
	}
	require.Equal(t, uint32(1), words(t, be, s, owner)[99], "the caller's memory is still there")

	whole := alloc()
	part, err := be.SubBuffer(whole, 8, backend.U32, 50)
	require.NoError(t, err)
	ofPart := fillGraph(t, be, s, part, 1)
	require.NoError(t, ofPart.Launch())
	require.NoError(t, be.Free(whole), "and its part with it")
	require.ErrorIs(t, ofPart.Launch(), backend.ErrFreed)
	require.NoError(t, ofPart.Close())

	step := newStep(t, be, launch.Formats[0])
	g, err := backend.Capture(be, step.s, step.all)
	require.NoError(t, err)
	work := step.attend.Work.Buf
	same, err := be.Handle(work)
	require.NoError(t, err)
	again, err := be.Import(same, backend.U32, work.Len())
	require.NoError(t, err)
	require.NoError(t, be.Free(again), "the same memory by another name, which the graph does not use")
	require.NoError(t, g.Launch())
	require.NoError(t, g.Close())

	// Memory that is freed during a capture outlives what the stream was given before.
	b := alloc()
	require.NoError(t, be.Copy(s, b, 0, owner, 0, 100))
	g, err = backend.Capture(be, s, func() error { return be.Free(b) })
	require.NoError(t, err)
	require.NoError(t, g.Close())

	b = alloc()
	g, err = backend.Capture(be, s, func() error { return errors.Join(be.Fill(s, b, 0, 1, 1), be.Free(b)) })
	require.ErrorIs(t, err, backend.ErrFreed)
	require.ErrorContains(t, err, "capture: destination of its fill: ")
	require.Nil(t, g)
	require.NoError(t, s.Sync())
}

// Graphs end with Close, with their stream and with their device, not before their
// launches have.
func testGraphClose[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	b := bufferOf(t, be, s, backend.U32, make([]uint32, 1<<16))
	g, kept := fillGraph(t, be, s, b, 1), fillGraph(t, be, s, b, 2)
	for range 5 {
		require.NoError(t, g.Launch())
	}
	require.NoError(t, g.Close())
	require.ErrorIs(t, g.Close(), backend.ErrClosed)
	require.ErrorIs(t, g.Launch(), backend.ErrClosed)
	require.NoError(t, kept.Launch())
	require.Equal(t, uint32(2), words(t, be, s, b)[1<<16-1])

	own, err := be.NewStream()
	require.NoError(t, err)
	g = fillGraph(t, be, own, b, 3)
	require.NoError(t, g.Launch())
	require.NoError(t, own.Close())
	require.ErrorIs(t, g.Launch(), backend.ErrClosed)
	require.ErrorIs(t, g.Close(), backend.ErrClosed)
	require.NoError(t, kept.Close())
	if d.Standin != nil {
		d.Standin.Check(t, nil)
	}

	be = d.openNow(t)
	s, err = be.NewStream()
	require.NoError(t, err)
	b, err = be.Alloc(backend.U32, 1)
	require.NoError(t, err)
	g = fillGraph(t, be, s, b, 4)
	require.NoError(t, g.Launch())
	_, err = backend.Capture(be, s, func() error {
		require.NoError(t, be.Fill(s, b, 0, 1, 5))
		require.NoError(t, be.Close())
		return nil
	})
	require.ErrorIs(t, err, backend.ErrClosed)
	require.ErrorIs(t, g.Launch(), backend.ErrClosed)
	require.ErrorIs(t, g.Close(), backend.ErrClosed)
	require.ErrorIs(t, second(backend.Capture(be, s, func() error { return nil })), backend.ErrClosed)
}

// What cannot be quantized is found in each launch.
func testGraphNonFinite[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	s := newStream(t, be)
	token, buffers, err := newToken(be)
	require.NoError(t, err)
	require.NoError(t, be.Fill(s, token.Slots, 0, 1, 0))
	g, err := backend.Capture(be, s, func() error { return be.Append(s, token) })
	require.NoError(t, err)
	for _, v := range []float64{1, math.NaN(), 2, math.Inf(1)} {
		require.NoError(t, be.Fill(s, token.K.Buf, 0, tokenDim, v))
		require.NoError(t, g.Launch())
		if err := s.Sync(); math.IsNaN(v) || math.IsInf(v, 0) {
			require.ErrorIs(t, err, backend.ErrNonFinite{})
		} else {
			require.NoError(t, err)
		}
	}
	for _, b := range buffers {
		require.NoError(t, be.Free(b))
	}
	require.ErrorIs(t, g.Launch(), backend.ErrFreed)
	require.NoError(t, g.Close())
}

func testGraphsAllocateNothing[B launch.Buffer](t *testing.T, d *Device[B]) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	be := d.open(t)
	c := newStep(t, be, launch.Formats[0])
	g, err := backend.Capture(be, c.s, c.all)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if g.Launch() != nil {
			t.Fail()
		}
	}))
	require.NoError(t, g.Close())
}

// Streams replay, others capture, and buffers come and go, all at once.
func testGraphsBesideOthers[B launch.Buffer](t *testing.T, d *Device[B]) {
	be := d.open(t)
	var wait sync.WaitGroup
	for i := range 3 {
		s := newStream(t, be)
		b := bufferOf(t, be, s, backend.U32, make([]uint32, 1000))
		wait.Go(func() {
			for range 10 {
				g, err := backend.Capture(be, s, func() error { return be.Fill(s, b, 0, 1000, float64(i)) })
				if err == nil {
					err = errors.Join(g.Launch(), g.Launch(), s.Sync(), g.Launch(), g.Close())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		wait.Go(func() {
			for range 20 {
				b, err := be.Alloc(backend.U32, 1000)
				if err == nil {
					err = be.Free(b)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		defer func() { require.Equal(t, uint32(i), words(t, be, s, b)[999]) }()
	}
	wait.Wait()
}
