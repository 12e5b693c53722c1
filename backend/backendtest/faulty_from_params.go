// Code generated from backend/params.go by backend/internal/operandgen. DO NOT EDIT.

package backendtest

import "github.com/ferrumkv/ferrumkv/backend"

// The operations.
const (
	OpAppend        Op = "append"
	OpAttend        Op = "attend"
	OpMerge         Op = "merge"
	OpGather        Op = "gather"
	OpClearMass     Op = "clear mass"
	OpCopyBlocks    Op = "copy blocks"
	OpMoveSlots     Op = "move slots"
	OpConvertBlocks Op = "convert blocks"
	OpRotate        Op = "rotate"
)

var operations = [...]Op{OpAppend, OpAttend, OpMerge, OpGather, OpClearMass, OpCopyBlocks, OpMoveSlots, OpConvertBlocks, OpRotate}

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

func (f *Faulty[B]) ClearMass(s backend.Stream, p backend.ClearMassParams[B]) error {
	under, err := f.under(OpClearMass, s)
	if err != nil {
		return err
	}
	return f.Backend.ClearMass(under, p)
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
