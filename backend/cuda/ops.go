//go:build linux && cgo && !nocuda

package cuda

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Append writes new keys and values into the cache, rotated where Rope is set, in
// one launch. A slot outside the cache is skipped, a position outside the rope table
// is taken for its last. Sync reports values that could not be quantized.
func (be *Backend) Append(s backend.Stream, p backend.AppendParams[*Buffer]) error {
	return be.dev.Append(s, p)
}

// PlanAttend splits a step's attention so that every multiprocessor has its share. It
// loads the attention kernels of the shape's types.
func (be *Backend) PlanAttend(s backend.AttendShape) (backend.AttendPlan, error) {
	return be.dev.Plan(s, func(k launch.Kernel) (int, error) {
		found, err := be.modules.find(k)
		if err != nil {
			return 0, err
		}
		return found.resident, nil
	})
}

// Attend computes softmax(q·K)·V: a launch for each kind of item that the plan has,
// one that merges the tiles of several parts, and one for the attention mass. Blocks
// outside the cache and lengths beyond a sequence's blocks lead to results that are
// unspecified, never outside the operands.
func (be *Backend) Attend(s backend.Stream, p backend.AttendParams[*Buffer]) error {
	return be.dev.Attend(s, p)
}

// Merge combines attention results over disjoint sets of keys.
func (be *Backend) Merge(s backend.Stream, p backend.MergeParams[*Buffer]) error {
	return be.dev.Merge(s, p)
}

// Gather materialises one sequence as [heads, length, dim], a launch for each plane.
// Tokens in a block outside the cache are left out.
func (be *Backend) Gather(s backend.Stream, p backend.GatherParams[*Buffer]) error {
	return be.dev.Gather(s, p)
}

// CopyBlocks copies whole blocks within a cache, a launch for the planes and others for
// scales and attention mass. A pair with a block outside it is skipped.
func (be *Backend) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[*Buffer]) error {
	return be.dev.CopyBlocks(s, p)
}

// MoveSlots copies single slots within a cache, with the result of one after
// another. A pair with a slot outside it is skipped.
func (be *Backend) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[*Buffer]) error {
	return be.dev.MoveSlots(s, p)
}

// ConvertBlocks copies whole blocks between caches of different storage types, a launch
// for each plane. A pair with a block outside its cache is skipped. Sync reports values
// that could not be quantized.
func (be *Backend) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[*Buffer]) error {
	return be.dev.ConvertBlocks(s, p)
}

// Rotate turns cached keys by a number of positions. A slot outside the cache, and a
// distance outside the rope table, is skipped.
func (be *Backend) Rotate(s backend.Stream, p backend.RotateParams[*Buffer]) error {
	return be.dev.Rotate(s, p)
}

// Copy moves n elements between buffers of one DType; overlap is allowed, and takes
// some memory of the device until the copy is done.
func (be *Backend) Copy(s backend.Stream, dst *Buffer, dstOff int, src *Buffer, srcOff, n int) error {
	return be.dev.Copy(s, dst, dstOff, src, srcOff, n)
}

// Fill sets n elements from off on to v, rounded to the storage type. An integer
// type must be able to hold v (ErrShape); the types that need a scale beside them
// take 0 only (ErrUnsupported).
func (be *Backend) Fill(s backend.Stream, dst *Buffer, off, n int, v float64) error {
	return be.dev.Fill(s, dst, off, n, v)
}
