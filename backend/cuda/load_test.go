//go:build linux && cgo && !nocuda

package cuda

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/standin"
)

// held begins do, which loads a module, and returns once the driver is in that load. What release returns
// is what do returned.
func held(t *testing.T, c *standin.Control, do func() error) (release func() error) {
	let := c.Hold("cuModuleLoadData")
	t.Cleanup(let)
	before, done := c.Calls("cuModuleLoadData"), make(chan error, 1)
	go func() { done <- do() }()
	for c.Calls("cuModuleLoadData") == before {
		select {
		case err := <-done:
			t.Fatal("it loaded nothing: ", err)
		case <-time.After(time.Millisecond):
		}
	}
	return func() error {
		let()
		return <-done
	}
}

// soon fails the test where do waits for the load.
func soon(t *testing.T, name string, do func() error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		require.NoError(t, err, name)
	case <-time.After(time.Minute):
		require.Fail(t, "it waits for the load of a module", name)
	}
}

// While the driver loads, or compiles, a module, which may take minutes, all else goes on: calls that make
// and end something, and operations whose kernels are there.
func TestNothingWaitsForALoad(t *testing.T) {
	c := control(t)
	be := open(t)
	l, err := makeLayer(be, decodeShape(2))
	require.NoError(t, err)
	step := func() error { return errors.Join(be.Append(l.s, l.append), be.Attend(l.s, l.attend), l.s.Sync()) }
	require.NoError(t, step())
	s, err := be.NewStream()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 64)
	require.NoError(t, err)
	float := decodeShape(2)
	float.Format = backend.Format{Act: backend.F32, K: backend.F32, V: backend.F32}
	loads := map[string]func() error{
		"fill": func() error { return be.Fill(s, b, 0, 64, 1) },
		"plan attend": func() error {
			_, err := be.PlanAttend(float)
			return err
		},
	}
	for name, load := range loads {
		t.Run(name, func(t *testing.T) {
			release := held(t, c, load)
			var more *Buffer
			var e backend.Event
			soon(t, "alloc", func() (err error) { more, err = be.Alloc(backend.U32, 1<<20); return err })
			soon(t, "new event", func() (err error) { e, err = be.NewEvent(); return err })
			soon(t, "free", func() error { return be.Free(more) })
			soon(t, "a step", step)
			soon(t, "info", func() error { be.Info(); return nil })
			soon(t, "plan", func() error { _, err := be.PlanAttend(decodeShape(2)); return err })
			soon(t, "close event", func() error { return e.Close() })
			require.NoError(t, release())
		})
	}
}

// What changes while an operation waits for its kernel is found by the operation.
func TestALoadIsNoReasonToUseWhatIsGone(t *testing.T) {
	c := control(t)
	be := open(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 64)
	require.NoError(t, err)
	release := held(t, c, func() error { return be.Fill(s, b, 0, 64, 1) })
	soon(t, "free", func() error { return be.Free(b) })
	require.ErrorIs(t, release(), backend.ErrFreed)
}

// Close waits for the load that the driver is in, as nothing ends it, and whoever asked for it is told
// that the device is closed.
func TestCloseWaitsForALoad(t *testing.T) {
	c := control(t)
	be := openNow(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 64)
	require.NoError(t, err)
	release := held(t, c, func() error { return be.Fill(s, b, 0, 64, 1) })
	closed := make(chan error, 1)
	go func() { closed <- be.Close() }()
	for be.dev.Use("test") == nil {
		be.dev.End()
		time.Sleep(time.Millisecond)
	}
	select {
	case <-closed:
		require.Fail(t, "closed under the load")
	case <-time.After(10 * time.Millisecond):
	}
	require.ErrorIs(t, release(), backend.ErrClosed)
	require.NoError(t, <-closed)
}

// Families load beside each other.
func TestFamiliesLoadBesideEachOther(t *testing.T) {
	c := control(t)
	be := open(t)
	before := c.Calls("cuModuleLoadData")
	release := held(t, c, func() error {
		_, err := be.modules.find(launch.Kernel{Op: launch.OpFill})
		return err
	})
	other := make(chan error, 1)
	go func() {
		_, err := be.modules.find(launch.Kernel{Op: launch.OpCopyBlocks})
		other <- err
	}()
	require.Eventually(t, func() bool { return c.Calls("cuModuleLoadData") == before+2 }, time.Minute, time.Millisecond)
	require.NoError(t, release())
	require.NoError(t, <-other)
}

// A module that finds no memory is loaded once what was freed is back; where that is too little, it is an
// error, which nobody remembers.
func TestLoadWaitsForFreedMemory(t *testing.T) {
	const outOfMemory = 2
	c := control(t)
	t.Cleanup(func() { c.FailFunction("cuModuleLoadData", 0, 0) })
	be := open(t)
	s, err := be.NewStream()
	require.NoError(t, err)
	b, err := be.Alloc(backend.U32, 1<<20)
	require.NoError(t, err)
	gone, err := be.Alloc(backend.U32, 1<<20)
	require.NoError(t, err)
	require.NoError(t, be.Free(gone))

	trims := c.Calls("cuMemPoolTrimTo")
	c.FailFunction("cuModuleLoadData", 1, outOfMemory)
	c.FailFunction("cuModuleLoadData", 2, outOfMemory)
	err = be.Fill(s, b, 0, 64, 1)
	require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	require.ErrorContains(t, err, "cuda:0: fill: load kernels ")

	c.FailFunction("cuModuleLoadData", 1, outOfMemory)
	require.NoError(t, be.Fill(s, b, 0, 64, 1))
	if be.memory.pool != 0 {
		require.Equal(t, trims+2, c.Calls("cuMemPoolTrimTo"))
	}
}

// Kernels with a ring in shared memory get all of it that there is; others leave it to the driver.
func TestRingsPreferSharedMemory(t *testing.T) {
	c := control(t)
	be := open(t)
	rings := 0
	for _, op := range []launch.Kernel{{Op: launch.OpFill}, launch.Attention(1, launch.Formats[0], 128, 128), launch.Attention(2, launch.Formats[0], 128, 128)} {
		k, err := be.modules.find(op)
		require.NoError(t, err)
		if k.shared > freeShared {
			rings++
			require.Equal(t, 100, c.Carveout(op.Symbol()), op.Symbol())
		} else {
			require.Equal(t, -1, c.Carveout(op.Symbol()), op.Symbol())
		}
	}
	require.Positive(t, rings)
}
