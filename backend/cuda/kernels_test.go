//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

// Every kernel that a call can ask for was compiled, with the threads that grids are
// made for.
func TestKernelsAreCompiled(t *testing.T) {
	compiled, err := cudakernels.Load()
	require.NoError(t, err)
	for _, k := range launch.Reachable() {
		if k.Op == launch.OpCopy {
			continue // the driver copies
		}
		entry, ok := compiled.Find(k.Symbol())
		require.True(t, ok, "%s is not in the MANIFEST", k.Symbol())
		switch k.Op {
		case launch.OpAppend, launch.OpAppendQuant, launch.OpRotate, launch.OpRotateQuant, launch.OpPackBlocks, launch.OpUnpackBlocks:
			require.Equal(t, launch.UnitThreads, entry.Threads, k.Symbol())
		}
	}
}
