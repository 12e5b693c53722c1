//go:build linux && cgo && !nocuda

package cuda

import (
	"fmt"
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
		c.FailCall(0)
	})
	return c
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
		require.ErrorIs(t, err, backend.ErrOutOfMemory{})
	} else {
		require.NoError(t, err)
		require.NoError(t, be.Free(b))
	}
	require.Equal(t, before+1, c.Counts().Injected)
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
