// Code generated from backend/params.go by backend/internal/operandgen. DO NOT EDIT.

package backendtest

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Append enqueues the operation.
func (d *Late[B]) Append(s backend.Stream, p backend.AppendParams[B]) error {
	return d.late("append", s, func() error { return d.operands("append").Append(&p) },
		func(under backend.Stream) error { return d.Backend.Append(under, p) })
}

// Attend enqueues the operation, with copies of its slices.
func (d *Late[B]) Attend(s backend.Stream, p backend.AttendParams[B]) error {
	p.Plan.Work = slices.Clone(p.Plan.Work)
	return d.late("attend", s, func() error { return d.operands("attend").Attend(&p) },
		func(under backend.Stream) error { return d.Backend.Attend(under, p) })
}

// AttendScores enqueues the operation, with copies of its slices.
func (d *Late[B]) AttendScores(s backend.Stream, p backend.AttendScoresParams[B]) error {
	p.Plan.Work = slices.Clone(p.Plan.Work)
	return d.late("attend scores", s, func() error { return d.operands("attend scores").AttendScores(&p) },
		func(under backend.Stream) error { return d.Backend.AttendScores(under, p) })
}

// Merge enqueues the operation.
func (d *Late[B]) Merge(s backend.Stream, p backend.MergeParams[B]) error {
	return d.late("merge", s, func() error { return d.operands("merge").Merge(&p) },
		func(under backend.Stream) error { return d.Backend.Merge(under, p) })
}

// Gather enqueues the operation.
func (d *Late[B]) Gather(s backend.Stream, p backend.GatherParams[B]) error {
	return d.late("gather", s, func() error { return d.operands("gather").Gather(&p) },
		func(under backend.Stream) error { return d.Backend.Gather(under, p) })
}

// ClearScores enqueues the operation.
func (d *Late[B]) ClearScores(s backend.Stream, p backend.ClearScoresParams[B]) error {
	return d.late("clear scores", s, func() error { return d.operands("clear scores").ClearScores(&p) },
		func(under backend.Stream) error { return d.Backend.ClearScores(under, p) })
}

// CopyBlocks enqueues the operation.
func (d *Late[B]) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[B]) error {
	return d.late("copy blocks", s, func() error { return d.operands("copy blocks").CopyBlocks(&p) },
		func(under backend.Stream) error { return d.Backend.CopyBlocks(under, p) })
}

// MoveSlots enqueues the operation.
func (d *Late[B]) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[B]) error {
	return d.late("move slots", s, func() error { return d.operands("move slots").MoveSlots(&p) },
		func(under backend.Stream) error { return d.Backend.MoveSlots(under, p) })
}

// ConvertBlocks enqueues the operation.
func (d *Late[B]) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[B]) error {
	return d.late("convert blocks", s, func() error { return d.operands("convert blocks").ConvertBlocks(&p) },
		func(under backend.Stream) error { return d.Backend.ConvertBlocks(under, p) })
}

// Rotate enqueues the operation.
func (d *Late[B]) Rotate(s backend.Stream, p backend.RotateParams[B]) error {
	return d.late("rotate", s, func() error { return d.operands("rotate").Rotate(&p) },
		func(under backend.Stream) error { return d.Backend.Rotate(under, p) })
}
