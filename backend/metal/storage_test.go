//go:build linux && cgo && !nometal && metalsimt

package metal

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/kernels"
)

// Types have the numbers that kernels count in kernels/storage.h, and these fit their bits.
func TestStorageNumbers(t *testing.T) {
	header, err := kernels.Headers.ReadFile("storage.h")
	require.NoError(t, err)
	listed := regexp.MustCompile(`(?m)^ +f\((\w+), `).FindAllSubmatch(header, -1)
	require.Len(t, storages, len(listed))
	require.Less(t, len(storages), 1<<storedBits)
	require.LessOrEqual(t, constants, 32, "as many as a pipeline takes")
	for i, name := range listed {
		dt, ok := backend.ParseDType(string(name[1]))
		require.True(t, ok, "%s", name[1])
		require.Equal(t, abi.Storage(dt), storages[i])
		require.Equal(t, uint32(i)<<abi.Constants|uint32(i)<<(abi.Constants+storedBits), storedAs(storages[i], storages[i]))
	}
}

// What PlanAttend compiles for a format is what its calls ask for, and only kernels of attention are
// told by constants how their planes are stored.
func TestStoredOfCalls(t *testing.T) {
	for _, k := range launch.Reachable() {
		attention := k.Op == launch.OpAttendVector || k.Op == launch.OpAttendDecode || k.Op == launch.OpAttendPrefill || k.Op == launch.OpAttendMass
		require.True(t, attention || k.Out != launch.Quant, k.Symbol())
	}
	seen := map[uint32]backend.Format{}
	for _, f := range launch.Formats {
		v := variantOf(launch.Kernel{Op: launch.OpAttendDecode, In: f.Act, Out: f.K}, f, 0)
		require.Zero(t, v.constants, "a name with a type")
		if !f.K.Quantized() {
			continue
		}
		v = variantOf(launch.Kernel{Op: launch.OpAttendDecode, In: f.Act, Out: launch.Quant}, f, 0)
		require.Zero(t, v.constants&(1<<abi.Constants-1))
		if other, ok := seen[v.constants]; ok {
			require.Equal(t, [2]backend.DType{other.K, other.V}, [2]backend.DType{f.K, f.V})
		}
		seen[v.constants] = f
	}
	require.Zero(t, variantOf(launch.Kernel{Op: launch.OpAttendMerge, In: backend.F16}, launch.Formats[len(launch.Formats)-1], 0).constants)
}
