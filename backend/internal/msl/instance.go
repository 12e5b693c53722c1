// Package msl says which part of kernels/metal a kernel is: the family whose source holds
// it, the macros that it is compiled with, and its threads.
package msl

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	metalkernels "github.com/ferrumkv/ferrumkv/kernels/metal"
)

// family is a file of kernels/metal.
type family struct {
	name    string
	threads uint32 // of a threadgroup, as the kernels demand
	whole   bool   // it is compiled as it is, with all its kernels
}

var families = [...]family{
	launch.OpAppend:           {"append", 128, false},
	launch.OpAppendQuant:      {"append_quant", 128, false},
	launch.OpAppendQuantLong:  {"append_quant_long", 128, false},
	launch.OpAttendVector:     {"attend_vector", 128, false},
	launch.OpAttendDecode:     {"attend_decode", 128, false},
	launch.OpAttendPrefill:    {"attend_prefill", 256, false},
	launch.OpAttendMerge:      {"attend_merge", 128, false},
	launch.OpAttendMass:       {"attend_mass", 128, false},
	launch.OpClearMass:        {"blocks", 256, true},
	launch.OpCopy:             {"fill", 256, true},
	launch.OpCopyBits:         {"fill", 32, true},
	launch.OpCopyBlocks:       {"blocks", 256, true},
	launch.OpCopyBlocksNarrow: {"blocks", 256, true},
	launch.OpFill:             {"fill", 256, true},
	launch.OpGather:           {"gather", 128, false},
	launch.OpGatherQuant:      {"gather_quant", 128, true},
	launch.OpMerge:            {"merge", 128, false},
	launch.OpMoveSlots:        {"blocks", 256, true},
	launch.OpMoveSlotsNarrow:  {"blocks", 256, true},
	launch.OpPackBlocks:       {"pack_blocks", 128, false},
	launch.OpPackBlocksLong:   {"pack_blocks_long", 128, false},
	launch.OpProbeMMA:         {"probe", 128, true},
	launch.OpProbeRead:        {"probe", 256, true},
	launch.OpRotate:           {"rotate", 128, false},
	launch.OpRotateQuant:      {"rotate_quant", 128, false},
	launch.OpRotateQuantLong:  {"rotate_quant_long", 128, false},
	launch.OpUnpackBlocks:     {"unpack_blocks", 128, false},
	launch.OpUnpackBlocksLong: {"unpack_blocks_long", 128, false},
}

// familyOf is the family of a kernel. That of decode is for matrices of 16-bit elements; f32 and latent caches have
// others.
func familyOf(k launch.Kernel) family {
	f := families[k.Op]
	if k.Op != launch.OpAttendDecode {
		return f
	}
	latent := slices.Contains(launch.LatentDims, [2]int{int(k.KDim), int(k.VDim)})
	if latent {
		f.name, f.threads = "attend_latent", 256
	}
	if k.In == backend.F32 {
		f.name = "attend_decode_f32"
	}
	return f
}

// Threads is how many threads a threadgroup of a kernel has.
func Threads(k launch.Kernel) uint32 { return familyOf(k).threads }

// Instance is what a kernel is compiled from. Its layout does not matter: that is a
// function constant.
func Instance(k launch.Kernel) metalkernels.Instance {
	f := familyOf(k)
	if f.whole {
		return metalkernels.Instance{Family: f.name}
	}
	return metalkernels.Instance{Family: f.name, Name: k.Symbol(), In: launch.Word(k.In), Out: launch.Word(k.Out), KDim: int(k.KDim), VDim: int(k.VDim)}
}

// Instances is every instance that some call needs, each once.
func Instances() []metalkernels.Instance {
	var all []metalkernels.Instance
	seen := map[metalkernels.Instance]bool{}
	for _, k := range launch.Reachable() {
		if k.Op == launch.OpStageBlocks {
			continue // the devices have the host's memory
		}
		if i := Instance(k); !seen[i] {
			seen[i] = true
			all = append(all, i)
		}
	}
	return all
}
