package launch

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Formats are the combinations of types that there are kernels for. Not to be
// modified.
var Formats = []backend.Format{
	{Act: backend.F16, K: backend.F16, V: backend.F16},
	{Act: backend.BF16, K: backend.BF16, V: backend.BF16},
	{Act: backend.F32, K: backend.F32, V: backend.F32},
	{Act: backend.F32, K: backend.F16, V: backend.F16},
	{Act: backend.F32, K: backend.BF16, V: backend.BF16},
}

// HeadDims are the head dims of keys and values that there are kernels for. Not to
// be modified.
var HeadDims = [][2]int{{64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 192}, {256, 256}, {192, 128}}

// Reachable is every kernel that some call asks for, each once.
func Reachable() []Kernel {
	var kernels []Kernel
	seen := map[Kernel]bool{}
	add := func(k Kernel) {
		if !seen[k] {
			seen[k] = true
			kernels = append(kernels, k)
		}
	}
	for _, op := range []Op{OpFill, OpCopyBits, OpCopy, OpCopyBlocks, OpMoveSlots} {
		add(Kernel{Op: op})
	}
	for _, f := range Formats {
		add(Kernel{Op: OpAppend, In: f.Act, Out: f.K})
		add(Kernel{Op: OpRotate, In: f.K})
		add(Kernel{Op: OpAttendMerge, In: f.Act})
		for _, to := range []backend.DType{f.K, backend.F32} {
			add(Kernel{Op: OpGather, In: f.K, Out: to})
		}
		for _, from := range []backend.DType{f.Act, backend.F32} {
			add(Kernel{Op: OpMerge, In: from, Out: f.Act})
		}
		for _, dims := range HeadDims {
			add(Kernel{Op: OpAttendMass, In: f.Act, Out: f.K, KDim: int32(dims[0]), VDim: int32(dims[1])})
			for kind := range plan.Kinds {
				for _, l := range []Layout{Paged, Contiguous} {
					if plan.Has(kind, f.Act) {
						add(Attention(kind, f, dims[0], dims[1], l))
					}
				}
			}
		}
	}
	return kernels
}
