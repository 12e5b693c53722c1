//go:build linux && cgo && !nocuda

package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
	cudakernels "github.com/ferrumkv/ferrumkv/kernels/cuda"
)

// reachable is every kernel that some call looks up.
func reachable() []kernelID {
	ids := []kernelID{{op: fillOp}, {op: copyBitsOp}, {op: copyBlocksOp}, {op: moveSlotsOp}}
	seen := map[kernelID]bool{}
	add := func(id kernelID) {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, f := range formats {
		add(kernelID{op: appendOp, in: f.Act, out: f.K})
		add(kernelID{op: rotateOp, in: f.K})
		add(kernelID{op: attendMergeOp, in: f.Act})
		for _, to := range []backend.DType{f.K, backend.F32} {
			add(kernelID{op: gatherOp, in: f.K, out: to})
		}
		for _, from := range []backend.DType{f.Act, backend.F32} {
			add(kernelID{op: mergeOp, in: from, out: f.Act})
		}
		for _, dims := range headDims {
			add(kernelID{op: attendMassOp, in: f.Act, out: f.K, kDim: int32(dims[0]), vDim: int32(dims[1])})
			for kind := range plan.Kinds {
				for _, l := range []layout{paged, contiguous} {
					if plan.Has(kind, f.Act) {
						add(attendKernel(kind, f, dims[0], dims[1], l))
					}
				}
			}
		}
	}
	return ids
}

// Every kernel that a call can ask for was compiled, under a name of its own.
func TestKernelsAreCompiled(t *testing.T) {
	compiled, err := cudakernels.Load()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, id := range reachable() {
		symbol := id.symbol()
		require.False(t, names[symbol], "two kernels are %s", symbol)
		names[symbol] = true
		_, ok := compiled.Find(symbol)
		require.True(t, ok, "%s is not in the MANIFEST", symbol)
	}
}

func TestSymbols(t *testing.T) {
	for want, id := range map[string]kernelID{
		"fkv_fill":                                   {op: fillOp},
		"fkv_append_f32_bf16":                        {op: appendOp, in: backend.F32, out: backend.BF16},
		"fkv_rotate_f16":                             {op: rotateOp, in: backend.F16},
		"fkv_attend_merge_f32":                       {op: attendMergeOp, in: backend.F32},
		"fkv_attend_mass_f16_f16_192_128":            {op: attendMassOp, in: backend.F16, out: backend.F16, kDim: 192, vDim: 128},
		"fkv_attend_decode_f16_f16_128_128_paged":    attendKernel(plan.Decode, formats[0], 128, 128, paged),
		"fkv_attend_vector_f32_f32_64_64_contiguous": attendKernel(plan.Vector, formats[2], 64, 64, contiguous),
	} {
		require.Equal(t, want, id.symbol())
	}
}

// Where kernels leave their limits a call ends with an error and not in a grid
// that is too large.
func TestArguments(t *testing.T) {
	a := arguments{op: "append"}
	require.EqualValues(t, 1<<32-1, a.count("tokens", 1<<32-1))
	require.EqualValues(t, maxGridY, a.heads("KV heads", maxGridY))
	require.EqualValues(t, 32, a.aligned("keys", 32, 48))
	require.NoError(t, a.err)
	a.count("tokens", 1<<32)
	require.ErrorIs(t, a.err, backend.ErrUnsupported{})
	a.aligned("keys", 8, 0) // the first error stays
	require.ErrorContains(t, a.err, "tokens")
	a = arguments{op: "append"}
	a.heads("KV heads", maxGridY+1)
	require.ErrorIs(t, a.err, backend.ErrUnsupported{})
	for _, c := range [][2]int64{{8, 0}, {0, 8}, {16, 24}} {
		a = arguments{op: "append"}
		a.aligned("keys", driver.Ptr(c[0]), c[1])
		require.ErrorIs(t, a.err, backend.ErrShape{}, "%v", c)
	}

	require.Equal(t, [3]uint32{1, 1, 1}, gridOf(1, 32, 1, 4))
	require.Equal(t, [3]uint32{1, 1, 1}, gridOf(32, 32, 4, 4))
	require.Equal(t, [3]uint32{2, 2, 1}, gridOf(33, 32, 5, 4))
	require.Equal(t, [3]uint32{1, 1, 1}, gridOf(0, 32, 0, 4))
	require.Equal(t, [3]uint32{maxGridX, maxGridY, 1}, gridOf(1<<62, 1, 1<<40, 1))
}
