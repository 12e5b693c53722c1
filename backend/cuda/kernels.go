//go:build linux && cgo && !nocuda

package cuda

import (
	"strconv"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/plan"
)

// kernelID names a kernel in numbers, so that a look-up makes no string. Fields
// that are zero are not in the kernel's name.
type kernelID struct {
	op         kernelOp
	in, out    backend.DType // types, in the order of the name
	kDim, vDim int32
	layout     layout
}

// kernelOp is what a kernel does.
type kernelOp uint8

const (
	appendOp kernelOp = iota
	attendVectorOp
	attendDecodeOp
	attendPrefillOp
	attendMergeOp
	attendMassOp
	copyBitsOp
	copyBlocksOp
	fillOp
	gatherOp
	mergeOp
	moveSlotsOp
	rotateOp
)

var opNames = [...]string{
	appendOp:        "fkv_append",
	attendVectorOp:  "fkv_attend_vector",
	attendDecodeOp:  "fkv_attend_decode",
	attendPrefillOp: "fkv_attend_prefill",
	attendMergeOp:   "fkv_attend_merge",
	attendMassOp:    "fkv_attend_mass",
	copyBitsOp:      "fkv_copy_bits",
	copyBlocksOp:    "fkv_copy_blocks",
	fillOp:          "fkv_fill",
	gatherOp:        "fkv_gather",
	mergeOp:         "fkv_merge",
	moveSlotsOp:     "fkv_move_slots",
	rotateOp:        "fkv_rotate",
}

// attendOps are the kernels that run the items of a plan.
var attendOps = [plan.Kinds]kernelOp{plan.Vector: attendVectorOp, plan.Decode: attendDecodeOp, plan.Prefill: attendPrefillOp}

// layout is how a kernel finds a key.
type layout uint8

const (
	anyLayout  layout = iota
	contiguous        // a sequence lies in one block
	paged             // in blocks of a power of two slots, by a table
)

// symbol is the kernel's name in its module: fkv_attend_decode_f16_f16_128_128_paged.
func (id kernelID) symbol() string {
	name := opNames[id.op]
	for _, dt := range [...]backend.DType{id.in, id.out} {
		if dt != backend.Invalid {
			name += "_" + dt.String()
		}
	}
	for _, dim := range [...]int32{id.kDim, id.vDim} {
		if dim != 0 {
			name += "_" + strconv.Itoa(int(dim))
		}
	}
	return name + [...]string{anyLayout: "", contiguous: "_contiguous", paged: "_paged"}[id.layout]
}
