package launch

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Formats are the combinations of types that there are kernels for, the float types first. Not to
// be modified.
var Formats = formats()

func formats() []backend.Format {
	all := []backend.Format{
		{Act: backend.F16, K: backend.F16, V: backend.F16},
		{Act: backend.BF16, K: backend.BF16, V: backend.BF16},
		{Act: backend.F32, K: backend.F32, V: backend.F32},
		{Act: backend.F32, K: backend.F16, V: backend.F16},
		{Act: backend.F32, K: backend.BF16, V: backend.BF16},
	}
	add := func(k, v backend.DType) {
		for _, act := range []backend.DType{backend.F16, backend.BF16, backend.F32} {
			all = append(all, backend.Format{Act: act, K: k, V: v})
		}
	}
	for dt := range backend.StorageTypes {
		if dt.Quantized() {
			add(dt, dt.Coding().Values)
		}
	}
	add(backend.Int8, backend.Int4)
	add(backend.FP8E4M3, backend.Int4)
	add(backend.Int4Channel, backend.Int8)
	return all
}

// HeadDims are the head dims of keys and values that there are kernels for. Not to
// be modified.
var HeadDims = [][2]int{{64, 64}, {80, 80}, {96, 96}, {112, 112}, {128, 128}, {192, 192}, {256, 256}, {192, 128}}

// LatentDims are those of latent caches.
var LatentDims = [][2]int{{576, 512}}

// Wide are the kernels of kind plan.Wide, which some devices have.
func Wide() (all []Kernel) {
	for _, f := range Formats {
		for _, d := range slices.Concat(HeadDims, LatentDims) {
			if plan.MayBeWide(f) {
				all = append(all, Attention(plan.Wide, f, d[0], d[1]))
			}
		}
	}
	return all
}

// Reachable is every kernel that some call asks for on every device, each once. OpCopy is for Metal only, OpStageBlocks for CUDA only.
func Reachable() []Kernel {
	var kernels []Kernel
	seen := map[Kernel]bool{}
	add := func(k Kernel) {
		if !seen[k] {
			seen[k] = true
			kernels = append(kernels, k)
		}
	}
	for _, op := range []Op{OpFill, OpCopyBits, OpCopy, OpCopyBlocks, OpCopyBlocksNarrow, OpMoveSlots, OpMoveSlotsNarrow, OpClearMass, OpGatherQuant, OpRotateQuant, OpRotateQuantLong, OpStageBlocks} {
		add(Kernel{Op: op})
	}
	for _, f := range Formats {
		if f.K.Quantized() {
			for _, op := range []Op{OpAppendQuant, OpPackBlocks, OpUnpackBlocks} {
				add(Kernel{Op: op, In: f.Act})
				add(Kernel{Op: op.long(true), In: f.Act})
			}
		} else {
			add(Kernel{Op: OpAppend, In: f.Act, Out: f.K})
			add(Kernel{Op: OpRotate, In: f.K})
			for _, to := range []backend.DType{f.K, backend.F32} {
				add(Kernel{Op: OpGather, In: f.K, Out: to})
			}
		}
		add(Kernel{Op: OpAttendMerge, In: f.Act})
		for _, from := range []backend.DType{f.Act, backend.F32} {
			add(Kernel{Op: OpMerge, In: from, Out: f.Act})
		}
		for _, latent := range []bool{false, true} {
			dims := HeadDims
			if latent {
				dims = LatentDims
			}
			for _, d := range dims {
				add(attentionMass(f, d[0], d[1]))
				for kind := range plan.Kinds {
					if (plan.Cache{Format: f, Latent: latent}).Has(kind) {
						add(Attention(kind, f, d[0], d[1]))
					}
				}
			}
		}
	}
	return kernels
}
