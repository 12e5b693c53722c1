//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// The system ends a command buffer that keeps the GPU from the display for too long, some of
// them after less than a second, and then the device is lost (jundot/omlx #1387, ml-explore/mlx
// #3267). So a command buffer holds a bounded time of work, by an estimate that is to be too
// long rather than too short.
//
// The rates are shares of what the smallest GPU has, the M1's, a core. Apple says 2.6
// TFLOPS and, of the M2, 100 GB/s, half as much again as the M1's 68
// (apple.com/newsroom/2020/11/apple-unleashes-m1, 2022/06/apple-unveils-m2), with 8 cores: 325
// GFLOPS and 8.5 GB/s each. Later ones have more of both a core, or about as much. How large
// the shares are that the kernels reach, nobody has measured.
const (
	matrixFlops = 80e9 // a second: a quarter, where simdgroup matrices multiply
	scalarFlops = 20e9 // a sixteenth, elsewhere
	memoryBytes = 4e9  // a second: half

	unpackFlops = 8 // to make an element of a code: docs/kernels.md counts 4 to 6 instructions on CUDA

	mostSeconds = 0.03 // of a command buffer; beside them its own cost, some tenths of a millisecond, is small
	coreGroups  = 4    // threadgroups that a core runs at once, of attention
)

// pace is what a device does in a time at least.
type pace struct {
	most                   float64 // seconds of work that a command buffer holds
	groups                 int     // threadgroups that fill the device
	matrix, scalar, memory float64 // seconds: for a flop of either kind, for a byte
}

func newPace(d mtl.Info) pace {
	n := float64(cores(d))
	return pace{mostSeconds, coreGroups * cores(d), 1 / (matrixFlops * n), 1 / (scalarFlops * n), 1 / (memoryBytes * n)}
}

// cores is how many a device has, or probably has.
func cores(d mtl.Info) int {
	if d.Cores == 0 {
		return someCores
	}
	return d.Cores
}

// seconds is how long a call takes that only moves data. Elements count as four bytes that
// are read and four that are written, which is the most.
func (p *pace) seconds(c *launch.Call) float64 {
	const moved = 8
	bytes := 0.0
	switch c.Kernel.Op {
	case launch.OpAppend:
		a := arguments[abi.AppendArgs](c)
		bytes = moved * float64(a.Tokens) * (float64(a.KVHeads)*float64(a.KDim+a.VDim) + float64(a.QHeads)*float64(a.KDim))
	case launch.OpAppendQuant:
		a := arguments[abi.AppendQuantArgs](c)
		bytes = moved * float64(a.Tokens) * (float64(a.KVHeads)*float64(a.KDim+a.VDim) + float64(a.QHeads)*float64(a.KDim))
	case launch.OpGather:
		a := arguments[abi.GatherArgs](c)
		bytes = moved * float64(a.Len) * float64(a.KVHeads) * float64(a.Dim)
	case launch.OpGatherQuant:
		a := arguments[abi.GatherQuantArgs](c)
		bytes = moved * float64(a.Len) * float64(a.KVHeads) * float64(a.Dim)
	case launch.OpPackBlocks:
		a := arguments[abi.PackBlocksArgs](c)
		bytes = moved * float64(a.Pairs) * float64(a.KVHeads) * float64(a.BlockSize) * float64(a.Dim)
	case launch.OpUnpackBlocks:
		a := arguments[abi.UnpackBlocksArgs](c)
		bytes = moved * float64(a.Pairs) * float64(a.KVHeads) * float64(a.BlockSize) * float64(a.Dim)
	case launch.OpCopyBlocks, launch.OpCopyBlocksNarrow:
		a := arguments[abi.CopyBlocksArgs](c)
		bytes = 2 * float64(a.Pairs) * float64(a.KBytes+a.VBytes)
	case launch.OpMoveSlots, launch.OpMoveSlotsNarrow:
		a := arguments[abi.MoveSlotsArgs](c)
		bytes = 2 * float64(a.Pairs) * float64(a.KVHeads) * float64(a.KBytes+a.VBytes)
	case launch.OpRotate:
		a := arguments[abi.RotateArgs](c)
		bytes = moved * float64(a.N) * float64(a.KVHeads) * float64(a.KDim)
	case launch.OpRotateQuant:
		a := arguments[abi.RotateQuantArgs](c)
		bytes = moved * float64(a.N) * float64(a.KVHeads) * float64(a.KDim)
	case launch.OpMerge:
		a := arguments[abi.MergeArgs](c)
		bytes = moved * float64(a.Parts) * float64(a.Tokens) * float64(a.Heads) * float64(a.Dim)
	case launch.OpClearMass:
		a := arguments[abi.ClearMassArgs](c)
		bytes = 4 * float64(a.N) * float64(a.KVHeads)
	case launch.OpCopy:
		bytes = 2 * float64(arguments[abi.CopyArgs](c).Bytes)
	case launch.OpFill:
		bytes = float64(arguments[abi.FillArgs](c).Bytes)
	}
	return bytes * p.memory // what is left are a byte, and the probes of benchmarks, which measure no command buffer's bound
}

// costs are what attention takes for what its items have.
type costs struct {
	merges bool
	matrix bool
	key    float64 // seconds for a key that an item reads
	row    float64 // and for a row that meets it; of a merge, for a row of a part
}

// costs are those of a launch of attention.
func (p *pace) costs(k launch.Kernel, a *abi.AttendArgs) costs {
	heads, elements := float64(a.KVHeads), float64(a.KDim+a.VDim)
	switch k.Op {
	case launch.OpAttendMerge:
		return costs{merges: true, row: 4 * heads * float64(a.VDim) * p.memory}
	case launch.OpAttendMass:
		elements = float64(a.KDim)
	}
	c := costs{matrix: k.In != backend.F32 && k.Op != launch.OpAttendVector}
	c.key, c.row = 2*heads*elements*p.memory, 2*heads*elements*p.scalar
	if c.matrix {
		c.row = 2 * heads * elements * p.matrix
	}
	switch k.Out {
	case backend.F32:
		c.key *= 2
	case launch.Quant:
		c.key += unpackFlops * heads * elements * p.scalar
	}
	return c
}

// of is the seconds for one item. It trusts none of its fields: the device has its own copy.
func (c *costs) of(words []uint32) float64 {
	item := (*abi.AttendItem)(unsafe.Pointer(unsafe.SliceData(words[:abi.ItemWords])))
	rows := float64(item.Rows)
	switch {
	case c.merges:
		return float64(item.Parts) * rows * c.row
	case item.KeyEnd <= item.Key:
		return 0
	case c.matrix:
		rows = float64((uint64(item.Rows) + 7) &^ 7) // a matrix has 8, of which some may be nobody's
	}
	return float64(item.KeyEnd-item.Key) * (c.key + rows*c.row)
}

// arguments are a call's.
func arguments[T any](c *launch.Call) *T { return (*T)(unsafe.Pointer(unsafe.SliceData(c.Args()))) }
