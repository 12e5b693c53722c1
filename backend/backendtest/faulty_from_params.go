// Code generated from backend/params.go by backend/internal/operandgen. DO NOT EDIT.

package backendtest

import "github.com/ferrumkv/ferrumkv/backend"

// The operations that a Faulty device can refuse.
const (
	OpAppend        Op = "append"
	OpAttend        Op = "attend"
	OpAttendScores  Op = "attend scores"
	OpMerge         Op = "merge"
	OpGather        Op = "gather"
	OpClearScores   Op = "clear scores"
	OpCopyBlocks    Op = "copy blocks"
	OpMoveSlots     Op = "move slots"
	OpConvertBlocks Op = "convert blocks"
	OpRotate        Op = "rotate"
)

var operations = [...]Op{OpAppend, OpAttend, OpAttendScores, OpMerge, OpGather, OpClearScores, OpCopyBlocks, OpMoveSlots, OpConvertBlocks, OpRotate}

func (f *Faulty[B]) Append(s backend.Stream, p backend.AppendParams[B]) error {
	under, err := f.under(OpAppend, s)
	if err != nil {
		return err
	}
	return f.Backend.Append(under, p)
}

func (f *Faulty[B]) Attend(s backend.Stream, p backend.AttendParams[B]) error {
	under, err := f.under(OpAttend, s)
	if err != nil {
		return err
	}
	return f.Backend.Attend(under, p)
}

func (f *Faulty[B]) AttendScores(s backend.Stream, p backend.AttendScoresParams[B]) error {
	under, err := f.under(OpAttendScores, s)
	if err != nil {
		return err
	}
	return f.Backend.AttendScores(under, p)
}

func (f *Faulty[B]) Merge(s backend.Stream, p backend.MergeParams[B]) error {
	under, err := f.under(OpMerge, s)
	if err != nil {
		return err
	}
	return f.Backend.Merge(under, p)
}

func (f *Faulty[B]) Gather(s backend.Stream, p backend.GatherParams[B]) error {
	under, err := f.under(OpGather, s)
	if err != nil {
		return err
	}
	return f.Backend.Gather(under, p)
}

func (f *Faulty[B]) ClearScores(s backend.Stream, p backend.ClearScoresParams[B]) error {
	under, err := f.under(OpClearScores, s)
	if err != nil {
		return err
	}
	return f.Backend.ClearScores(under, p)
}

func (f *Faulty[B]) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[B]) error {
	under, err := f.under(OpCopyBlocks, s)
	if err != nil {
		return err
	}
	return f.Backend.CopyBlocks(under, p)
}

func (f *Faulty[B]) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[B]) error {
	under, err := f.under(OpMoveSlots, s)
	if err != nil {
		return err
	}
	return f.Backend.MoveSlots(under, p)
}

func (f *Faulty[B]) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[B]) error {
	under, err := f.under(OpConvertBlocks, s)
	if err != nil {
		return err
	}
	return f.Backend.ConvertBlocks(under, p)
}

func (f *Faulty[B]) Rotate(s backend.Stream, p backend.RotateParams[B]) error {
	under, err := f.under(OpRotate, s)
	if err != nil {
		return err
	}
	return f.Backend.Rotate(under, p)
}
