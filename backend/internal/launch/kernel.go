package launch

import (
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// Kernel names a kernel in numbers, so that a look-up makes no string. Fields
// that are zero are not in the kernel's name.
type Kernel struct {
	Op         Op
	In, Out    backend.DType // types, in the order of the name
	KDim, VDim int32
	Layout     Layout
}

// Op is what a kernel does.
type Op uint8

// The kernels of kernels/abi.h.
const (
	OpAppend Op = iota
	OpAttendVector
	OpAttendDecode
	OpAttendPrefill
	OpAttendMerge
	OpAttendMass
	OpCopy
	OpCopyBits
	OpCopyBlocks
	OpFill
	OpGather
	OpMerge
	OpMoveSlots
	OpProbeMMA
	OpProbeRead
	OpRotate
)

var opNames = [...]string{
	OpAppend:        "fkv_append",
	OpAttendVector:  "fkv_attend_vector",
	OpAttendDecode:  "fkv_attend_decode",
	OpAttendPrefill: "fkv_attend_prefill",
	OpAttendMerge:   "fkv_attend_merge",
	OpAttendMass:    "fkv_attend_mass",
	OpCopy:          "fkv_copy",
	OpCopyBits:      "fkv_copy_bits",
	OpCopyBlocks:    "fkv_copy_blocks",
	OpFill:          "fkv_fill",
	OpGather:        "fkv_gather",
	OpMerge:         "fkv_merge",
	OpMoveSlots:     "fkv_move_slots",
	OpProbeMMA:      "fkv_probe_mma",
	OpProbeRead:     "fkv_probe_read",
	OpRotate:        "fkv_rotate",
}

// Layout is how a kernel finds a key.
type Layout uint8

// The layouts.
const (
	AnyLayout  Layout = iota
	Contiguous        // a sequence lies in one block
	Paged             // in blocks of a power of two slots, by a table
)

// Base is the kernel without its layout, which Metal has as a function constant and
// not in the name.
func (k Kernel) Base() Kernel {
	k.Layout = AnyLayout
	return k
}

// Symbol is the kernel's name in its module: fkv_attend_decode_f16_f16_128_128_paged.
func (k Kernel) Symbol() string {
	name := opNames[k.Op]
	for _, dt := range [...]backend.DType{k.In, k.Out} {
		if dt != backend.Invalid {
			name += "_" + dt.String()
		}
	}
	for _, dim := range [...]int32{k.KDim, k.VDim} {
		if dim != 0 {
			name += "_" + strconv.Itoa(int(dim))
		}
	}
	return name + [...]string{AnyLayout: "", Contiguous: "_contiguous", Paged: "_paged"}[k.Layout]
}

var attendOps = [plan.Kinds]Op{plan.Vector: OpAttendVector, plan.Decode: OpAttendDecode, plan.Prefill: OpAttendPrefill}

// Attention is the kernel that runs the items of a kind.
func Attention(kind plan.Kind, f backend.Format, kDim, vDim int, l Layout) Kernel {
	return Kernel{Op: attendOps[kind], In: f.Act, Out: f.K, KDim: int32(kDim), VDim: int32(vDim), Layout: l}
}
