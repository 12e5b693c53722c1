//go:build linux && cgo && !nocuda

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/standin"
)

// control returns the stand-in under test, or skips.
func control(t *testing.T) *standin.Control {
	c, ok := standin.Open()
	if !ok {
		t.Skip("failures are made by the stand-in, which FERRUM_CUDA_DRIVER does not name (make test-cuda-simt)")
	}
	t.Cleanup(func() {
		c.FailAlloc(0)
		c.FailLaunch(0)
		c.FailCall(0)
	})
	return c
}

// exercise uses everything of a device that takes memory or enqueues, and checks what
// comes of it. It leaves nothing behind unless it fails.
func exercise(be *Backend) (err error) {
	const n = 2<<20 + 4 // longer than the staging ring
	var s backend.Stream
	var e backend.Event
	var buffers []*Buffer
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
	data := bytes.Repeat([]byte{1, 2, 3}, n/3)
	got := make([]byte, n)
	for _, do := range []func() error{
		func() error { return be.Upload(s, buffers[0], 0, data) },
		func() error { return be.Copy(s, buffers[1], 0, buffers[0], 0, n) },
		func() error { return be.Copy(s, buffers[1], 3, buffers[1], 0, n-3) },
		func() error { return be.Fill(s, buffers[0], 0, n, 9) },
		func() error { return s.Record(e) },
		e.Sync,
		func() error { return s.Wait(e) },
		func() error { return be.Download(s, got, buffers[1], 0) },
		s.Sync,
	} {
		if err := do(); err != nil {
			return err
		}
	}
	if !bytes.Equal(data, got) {
		return errors.New("other bytes came back")
	}
	return nil
}

// everywhere makes each of the failures that the work meets happen once, until there
// are no more. After each the device does its work again, and nothing is left of it.
func everywhere(t *testing.T, fail func(n int), accepted func(error) bool) {
	c := control(t)
	start := c.Counts()
	step := 1
	if raceDetector { // which makes everything slow and finds the same in a part of it
		step = 7
	}
	for n := 1; ; n += step {
		before := c.Counts()
		fail(n)
		be, err := Open(0)
		if err == nil {
			err = exercise(be)
		}
		met := c.Counts().Injected - before.Injected
		fail(0)
		if met == 0 {
			require.NoError(t, err)
			require.NoError(t, be.Close())
			t.Logf("failures up to %d", n-step)
			require.Greater(t, n, 1, "none was met")
			break
		}
		if err != nil {
			require.True(t, accepted(err), "failure %d: %v", n, err)
		}
		if be == nil {
			be = openNow(t)
		}
		require.NoError(t, exercise(be), "after failure %d, which was %v", n, err)
		require.NoError(t, be.Close())
		require.Equal(t, start.Live(), c.Counts().Live(), "left after failure %d, which was %v: %+v", n, err, c.Counts())
		if err == nil || !strings.Contains(err.Error(), "cuCtxPushCurrent") { // then even giving back was refused
			require.Equal(t, before.Abandoned, c.Counts().Abandoned, "left to the context after failure %d, which was %v", n, err)
		}
	}
	require.Equal(t, start.Misuse, c.Counts().Misuse, c.Report())
}

func TestOutOfMemoryAnywhere(t *testing.T) {
	c := control(t)
	everywhere(t, c.FailAlloc, func(err error) bool { return errors.Is(err, backend.ErrOutOfMemory) })
}

func TestRefusedLaunchAnywhere(t *testing.T) {
	c := control(t)
	everywhere(t, c.FailLaunch, func(err error) bool {
		var refused driver.Error
		return errors.As(err, &refused) && refused.Call == "cuLaunchKernel"
	})
}

func TestFailedCallAnywhere(t *testing.T) {
	c := control(t)
	everywhere(t, c.FailCall, func(err error) bool {
		return errors.As(err, new(driver.Error)) || errors.Is(err, backend.ErrUnsupported{}) // an image that was refused
	})
}

// Memory that was freed and not yet returned is waited for before an allocation
// fails.
func TestAllocWaitsForFreedMemory(t *testing.T) {
	c := control(t)
	be := open(t)
	b, err := be.Alloc(backend.Int8, 100)
	require.NoError(t, err)
	require.NoError(t, be.Free(b))
	before := c.Counts().Injected
	c.FailAlloc(1)
	b, err = be.Alloc(backend.Int8, 100)
	if be.memory.pool == 0 {
		require.ErrorIs(t, err, backend.ErrOutOfMemory)
	} else {
		require.NoError(t, err)
		require.NoError(t, be.Free(b))
	}
	require.Equal(t, before+1, c.Counts().Injected)
}

// A lost device is reported once as the driver said it, then as ErrLost without
// asking the driver. It can be closed; another and the same can be opened.
func TestLostDevice(t *testing.T) {
	c := control(t)
	start := c.Counts()
	be := openNow(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	other, err := be.NewStream()
	require.NoError(t, err)
	e, err := be.NewEvent()
	require.NoError(t, err)
	b, err := backend.AllocFrom[*Buffer](be, s, backend.F32, make([]float32, 1000))
	require.NoError(t, err)
	require.NoError(t, be.Fill(s, b, 0, 1000, 1))
	require.True(t, c.Lose(0))

	err = s.Sync()
	require.ErrorIs(t, err, backend.ErrLost)
	var cause driver.Error
	require.ErrorAs(t, err, &cause)
	require.Equal(t, "CUDA_ERROR_ECC_UNCORRECTABLE", cause.Name)
	require.ErrorContains(t, err, "cuda:0: sync: cuStreamSynchronize: ")

	launches, syncs := c.Calls("cuLaunchKernel"), c.Calls("cuStreamSynchronize")
	for name, err := range map[string]error{
		"sync": s.Sync(), "another stream": other.Sync(), "fill": be.Fill(other, b, 0, 1, 0), "copy": be.Copy(s, b, 0, b, 1, 1),
		"upload": be.Upload(s, b, 0, make([]byte, 4)), "download": be.Download(s, make([]byte, 4), b, 0),
		"alloc": second(be.Alloc(backend.F32, 1)), "free": be.Free(b), "import": second(be.Import(backend.Handle{}, backend.F32, 0)),
		"new stream": second(be.NewStream()), "new event": second(be.NewEvent()), "record": s.Record(e), "wait": s.Wait(e),
		"event done": second(e.Done()), "event sync": e.Sync(), "close event": e.Close(), "close stream": s.Close(),
		"attend": be.Attend(s, backend.AttendParams[*Buffer]{}), "plan": second(be.PlanAttend(backend.AttendShape{})),
	} {
		require.ErrorIs(t, err, backend.ErrLost, name)
		require.False(t, errors.As(err, &cause), "%s: the cause is reported once", name)
	}
	require.Equal(t, launches, c.Calls("cuLaunchKernel"))
	require.Equal(t, syncs, c.Calls("cuStreamSynchronize"))
	require.Equal(t, 1, be.Info().Buffers)
	require.Zero(t, be.Info().FreeMemory)

	if neighbour, err := Open(1); err == nil {
		require.NoError(t, exercise(neighbour), "the next device works meanwhile")
		require.NoError(t, neighbour.Close())
	}
	require.NoError(t, be.Close(), "its loss was reported")
	require.ErrorIs(t, be.Close(), backend.ErrClosed)
	again := openNow(t)
	require.NoError(t, exercise(again))
	require.NoError(t, again.Close())
	require.Equal(t, start.Live(), c.Counts().Live(), "%+v", c.Counts())
}

// A loss that nobody has heard of yet is the error of Close, which gives everything
// back all the same.
func TestLossFoundByClose(t *testing.T) {
	c := control(t)
	start := c.Counts()
	be := openNow(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	b, err := be.Alloc(backend.F32, 1000)
	require.NoError(t, err)
	require.NoError(t, be.Fill(s, b, 0, 1000, 1))
	require.True(t, c.Lose(0))
	require.ErrorIs(t, be.Close(), backend.ErrLost)
	require.Equal(t, start.Live(), c.Counts().Live(), "%+v", c.Counts())
	require.NoError(t, openNow(t).Close())
}

// Info has no error to return, so it leaves a loss to a call that has.
func TestInfoLeavesALossToOthers(t *testing.T) {
	c := control(t)
	be := openNow(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	require.True(t, c.Lose(0))
	require.ErrorIs(t, be.ctx.Sync(0), backend.ErrLost, "behind the Backend's back")
	require.Zero(t, be.Info().FreeMemory)
	require.ErrorAs(t, s.Sync(), new(driver.Error))
	require.NoError(t, be.Close())
}

// A pool that could not be set up is destroyed where it was made, and nowhere else.
func TestRefusedPoolIsNoPool(t *testing.T) {
	c := control(t)
	be := open(t)
	if !be.ctx.Device.Pools {
		t.Skip("the device has no pools")
	}
	for n := 1; ; n++ {
		before := c.Counts()
		c.FailCall(n)
		p, err := be.ctx.NewPool(1 << 20)
		c.FailCall(0)
		if c.Counts().Injected == before.Injected {
			require.NoError(t, err)
			require.NoError(t, be.ctx.DestroyPool(p))
			break
		}
		require.Error(t, err)
		require.Zero(t, p)
		require.Equal(t, before.Pools, c.Counts().Pools)
	}
}

// A kernel that reaches outside of memory loses the device, as on hardware.
func TestIllegalAddress(t *testing.T) {
	control(t)
	be := openNow(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	k, err := be.modules.find(launch.Kernel{Op: launch.OpCopyBits})
	require.NoError(t, err)
	require.NoError(t, s.(*stream).CopyBits(launch.Place{At: 16}, launch.Place{At: 32}, 0xff))
	require.NotNil(t, k)
	err = s.Sync()
	require.ErrorIs(t, err, backend.ErrLost)
	require.ErrorContains(t, err, fmt.Sprintf("%s: sync: ", be.dev.Name()))
	require.NoError(t, be.Close())
	require.NoError(t, openNow(t).Close())
}
