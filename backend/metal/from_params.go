// Code generated from backend/params.go by backend/internal/operandgen. DO NOT EDIT.

//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import "github.com/ferrumkv/ferrumkv/backend"

// Append writes new keys and values into the cache, rotated where Rope is set, in
// one launch. A slot outside the cache is skipped, a position outside the rope table
// is taken for its last. Sync reports values that could not be quantized.
func (be *Backend) Append(s backend.Stream, p backend.AppendParams[*Buffer]) error {
	return be.dev.Append(s, &p)
}

// Attend computes softmax(q·K)·V: a launch for each kind of item that the plan has,
// one that merges the tiles of several parts, and one for the attention mass. Blocks
// outside the cache and lengths beyond a sequence's blocks lead to results that are
// unspecified, never outside the operands.
func (be *Backend) Attend(s backend.Stream, p backend.AttendParams[*Buffer]) error {
	return be.dev.Attend(s, &p)
}

// Merge combines attention results over disjoint sets of keys.
func (be *Backend) Merge(s backend.Stream, p backend.MergeParams[*Buffer]) error {
	return be.dev.Merge(s, &p)
}

// Gather materialises one sequence as [heads, length, dim], a launch for each plane and one for its
// attention mass.
// Tokens in a block outside the cache are left out.
func (be *Backend) Gather(s backend.Stream, p backend.GatherParams[*Buffer]) error {
	return be.dev.Gather(s, &p)
}

// ClearMass sets the attention mass of slots to 0, in one launch. A slot outside the cache is
// skipped.
func (be *Backend) ClearMass(s backend.Stream, p backend.ClearMassParams[*Buffer]) error {
	return be.dev.ClearMass(s, &p)
}

// CopyBlocks copies whole blocks within a cache, or from one to another of the same types, a
// launch for the planes and others for scales and attention mass. A pair with a block outside
// its cache is skipped.
func (be *Backend) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[*Buffer]) error {
	return be.dev.CopyBlocks(s, &p)
}

// MoveSlots copies single slots within a cache, with the result of one after
// another. A pair with a slot outside it is skipped.
func (be *Backend) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[*Buffer]) error {
	return be.dev.MoveSlots(s, &p)
}

// ConvertBlocks copies whole blocks between caches of different storage types, a launch
// for each plane and one for the attention mass. A pair with a block outside its cache is skipped. Sync reports values
// that could not be quantized.
func (be *Backend) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[*Buffer]) error {
	return be.dev.ConvertBlocks(s, &p)
}

// Rotate turns cached keys by a number of positions. A slot outside the cache, and a
// distance outside the rope table, is skipped.
func (be *Backend) Rotate(s backend.Stream, p backend.RotateParams[*Buffer]) error {
	return be.dev.Rotate(s, &p)
}
