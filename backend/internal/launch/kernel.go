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
	In, Out    backend.DType // types, in the order of the name; Quant for all quantized ones
	KDim, VDim int32
}

// Quant is every quantized type in the name of a kernel, which is told at run time which
// one it reads: one kernel instead of one for each. No buffer is of it.
const Quant backend.DType = 0xff

// stored is how a kernel's name says that a plane is stored.
func stored(dt backend.DType) backend.DType {
	if dt.Quantized() {
		return Quant
	}
	return dt
}

// Word is a type as it stands in a kernel's name; "" for one that does not.
func Word(dt backend.DType) string {
	switch dt {
	case backend.Invalid:
		return ""
	case Quant:
		return "quant"
	}
	return dt.String()
}

// long is the op for the rows of a latent cache, which are longer than others.
func (o Op) long(latent bool) Op {
	if latent {
		return o + 1
	}
	return o
}

// Op is what a kernel does.
type Op uint8

// The kernels of kernels/abi.h. That for long rows is behind the one for others.
const (
	OpAppend Op = iota
	OpAppendQuant
	OpAppendQuantLong
	OpAttendVector
	OpAttendDecode
	OpAttendPrefill
	OpAttendWide
	OpAttendMerge
	OpAttendMass
	OpClearMass
	OpCopy
	OpCopyBits
	OpCopyBlocks
	OpCopyBlocksNarrow
	OpFill
	OpGather
	OpGatherQuant
	OpMerge
	OpMoveSlots
	OpMoveSlotsNarrow
	OpPackBlocks
	OpPackBlocksLong
	OpProbeMMA
	OpProbeRead
	OpRotate
	OpRotateQuant
	OpRotateQuantLong
	OpStageBlocks
	OpUnpackBlocks
	OpUnpackBlocksLong
	Ops
)

var opNames = [...]string{
	OpAppend:           "fkv_append",
	OpAppendQuant:      "fkv_append_quant",
	OpAppendQuantLong:  "fkv_append_quant_long",
	OpAttendVector:     "fkv_attend_vector",
	OpAttendDecode:     "fkv_attend_decode",
	OpAttendPrefill:    "fkv_attend_prefill",
	OpAttendWide:       "fkv_attend_wide",
	OpAttendMerge:      "fkv_attend_merge",
	OpAttendMass:       "fkv_attend_mass",
	OpClearMass:        "fkv_clear_mass",
	OpCopy:             "fkv_copy",
	OpCopyBits:         "fkv_copy_bits",
	OpCopyBlocks:       "fkv_copy_blocks",
	OpCopyBlocksNarrow: "fkv_copy_blocks_narrow",
	OpFill:             "fkv_fill",
	OpGather:           "fkv_gather",
	OpGatherQuant:      "fkv_gather_quant",
	OpMerge:            "fkv_merge",
	OpMoveSlots:        "fkv_move_slots",
	OpMoveSlotsNarrow:  "fkv_move_slots_narrow",
	OpPackBlocks:       "fkv_pack_blocks",
	OpPackBlocksLong:   "fkv_pack_blocks_long",
	OpProbeMMA:         "fkv_probe_mma",
	OpProbeRead:        "fkv_probe_read",
	OpRotate:           "fkv_rotate",
	OpRotateQuant:      "fkv_rotate_quant",
	OpRotateQuantLong:  "fkv_rotate_quant_long",
	OpStageBlocks:      "fkv_stage_blocks",
	OpUnpackBlocks:     "fkv_unpack_blocks",
	OpUnpackBlocksLong: "fkv_unpack_blocks_long",
}

// Symbol is the kernel's name in its module: fkv_attend_decode_f16_f16_128_128.
func (k Kernel) Symbol() string {
	name := opNames[k.Op]
	for _, dt := range [...]backend.DType{k.In, k.Out} {
		if word := Word(dt); word != "" {
			name += "_" + word
		}
	}
	for _, dim := range [...]int32{k.KDim, k.VDim} {
		if dim != 0 {
			name += "_" + strconv.Itoa(int(dim))
		}
	}
	return name
}

var attendOps = [plan.Kinds]Op{plan.Vector: OpAttendVector, plan.Decode: OpAttendDecode, plan.Prefill: OpAttendPrefill, plan.Wide: OpAttendWide}

// Attention is the kernel that runs the items of a kind.
func Attention(kind plan.Kind, f backend.Format, kDim, vDim int) Kernel {
	return Kernel{Op: attendOps[kind], In: f.Act, Out: stored(f.K), KDim: int32(kDim), VDim: int32(vDim)}
}

// Attends reports whether a kernel of attention is one for a format.
func Attends(k Kernel, f backend.Format) bool { return k.In == f.Act && k.Out == stored(f.K) }

// attentionMass is the kernel that adds the attention scores up.
func attentionMass(f backend.Format, kDim, vDim int) Kernel {
	return Kernel{Op: OpAttendMass, In: f.Act, Out: stored(f.K), KDim: int32(kDim), VDim: int32(vDim)}
}
