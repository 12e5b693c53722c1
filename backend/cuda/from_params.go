// Code generated from backend/params.go by backend/internal/operandgen. DO NOT EDIT.

//go:build linux && cgo && !nocuda

package cuda

import "github.com/ferrumkv/ferrumkv/backend"

// Append writes new keys and values into the cache, in one launch. A slot outside the cache is
// skipped; a position outside the rotary table is taken as its last one. Sync reports values that
// could not be quantized.
func (be *Backend) Append(s backend.Stream, p backend.AppendParams[*Buffer]) error {
	return be.dev.Append(s, &p)
}

// Attend computes softmax(q·K)·V: one launch for each kind of item of the plan, one that merges
// partial results, and one for attention scores. With blocks outside the cache, or lengths beyond a
// sequence's blocks, results are unspecified; nothing outside the operands is accessed.
func (be *Backend) Attend(s backend.Stream, p backend.AttendParams[*Buffer]) error {
	return be.dev.Attend(s, &p)
}

// AttendScores adds to the attention scores of keys, relative to given log-sum-exps, in one launch.
// With blocks outside the cache, or lengths beyond a sequence's blocks, the scores are unspecified;
// nothing outside the operands is accessed.
func (be *Backend) AttendScores(s backend.Stream, p backend.AttendScoresParams[*Buffer]) error {
	return be.dev.AttendScores(s, &p)
}

// Merge combines attention results over disjoint sets of keys.
func (be *Backend) Merge(s backend.Stream, p backend.MergeParams[*Buffer]) error {
	return be.dev.Merge(s, &p)
}

// Gather copies one sequence to dense memory [heads, length, dim], in one launch for each plane and
// one for attention scores. Tokens in a block outside the cache are left out.
func (be *Backend) Gather(s backend.Stream, p backend.GatherParams[*Buffer]) error {
	return be.dev.Gather(s, &p)
}

// ClearScores sets the attention scores of slots to 0, in one launch. A slot outside the cache is
// skipped.
func (be *Backend) ClearScores(s backend.Stream, p backend.ClearScoresParams[*Buffer]) error {
	return be.dev.ClearScores(s, &p)
}

// CopyBlocks copies whole blocks within a cache, or between caches of the same types, in one launch
// for the planes, one for scales and one for attention scores. A pair with a block outside its
// cache is skipped.
func (be *Backend) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[*Buffer]) error {
	return be.dev.CopyBlocks(s, &p)
}

// MoveSlots copies single slots within a cache, as if in order. A pair with a slot outside of the
// cache is skipped.
func (be *Backend) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[*Buffer]) error {
	return be.dev.MoveSlots(s, &p)
}

// ConvertBlocks copies whole blocks between caches of different storage types, in one launch for
// each plane and one for attention scores. A pair with a block outside its cache is skipped. Sync
// reports values that could not be quantized.
func (be *Backend) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[*Buffer]) error {
	return be.dev.ConvertBlocks(s, &p)
}

// Rotate moves cached keys to other positions by rotating them. A slot outside the cache, or a
// distance outside the rotary table, is skipped.
func (be *Backend) Rotate(s backend.Stream, p backend.RotateParams[*Buffer]) error {
	return be.dev.Rotate(s, &p)
}
