//go:build linux && cgo && !nocuda

package cuda

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// A family of kernels is loaded when one of its kernels is first used, once, by
// however many goroutines.
func TestFamiliesLoadWhenUsed(t *testing.T) {
	be := open(t)
	require.Empty(t, be.modules.loaded)
	var wait sync.WaitGroup
	found := make([]*kernel, 8)
	for i := range found {
		wait.Go(func() { found[i], _ = be.modules.find(launch.Kernel{Op: launch.OpCopyBlocks}) })
	}
	wait.Wait()
	for _, k := range found {
		require.NotNil(t, k)
		require.Same(t, found[0], k)
	}
	require.Len(t, be.modules.loaded, 1)
	require.Positive(t, found[0].resident)
	other, err := be.modules.find(launch.Kernel{Op: launch.OpMoveSlots})
	require.NoError(t, err)
	require.NotEqual(t, found[0].fn, other.fn)
	require.Len(t, be.modules.loaded, 1, "of one family")
}
