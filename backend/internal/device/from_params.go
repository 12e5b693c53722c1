// Code generated from backend/params.go by backend/internal/operandgen. DO NOT EDIT.

package device

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// The operations are written out: one that is handed functions for the check and the calls
// makes each launch longer by 10 to 30 ns (BenchmarkHost of backend/cuda).

// Append is Backend.Append. It does not retain p.
func (d *Device[B, S, E, R]) Append(s backend.Stream, p *backend.AppendParams[B]) error {
	for {
		err := d.tryAppend(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("append", err); err != nil {
			return err
		}
	}
}

// tryAppend is Append, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryAppend(s backend.Stream, p *backend.AppendParams[B]) error {
	const op = "append"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Append(p); err != nil {
		return err
	}
	return d.run(op, own, launch.Append(own.Calls(), p))
}

// Attend is Backend.Attend. It does not retain p.
func (d *Device[B, S, E, R]) Attend(s backend.Stream, p *backend.AttendParams[B]) error {
	for {
		err := d.tryAttend(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("attend", err); err != nil {
			return err
		}
	}
}

// tryAttend is Attend, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryAttend(s backend.Stream, p *backend.AttendParams[B]) error {
	const op = "attend"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Attend(p); err != nil {
		return err
	}
	return d.run(op, own, launch.Attend(own.Calls(), p))
}

// AttendScores is Backend.AttendScores. It does not retain p.
func (d *Device[B, S, E, R]) AttendScores(s backend.Stream, p *backend.AttendScoresParams[B]) error {
	for {
		err := d.tryAttendScores(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("attend scores", err); err != nil {
			return err
		}
	}
}

// tryAttendScores is AttendScores, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryAttendScores(s backend.Stream, p *backend.AttendScoresParams[B]) error {
	const op = "attend scores"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.AttendScores(p); err != nil {
		return err
	}
	return d.run(op, own, launch.AttendScores(own.Calls(), p))
}

// Merge is Backend.Merge. It does not retain p.
func (d *Device[B, S, E, R]) Merge(s backend.Stream, p *backend.MergeParams[B]) error {
	for {
		err := d.tryMerge(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("merge", err); err != nil {
			return err
		}
	}
}

// tryMerge is Merge, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryMerge(s backend.Stream, p *backend.MergeParams[B]) error {
	const op = "merge"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Merge(p); err != nil {
		return err
	}
	return d.run(op, own, launch.Merge(own.Calls(), p))
}

// Gather is Backend.Gather. It does not retain p.
func (d *Device[B, S, E, R]) Gather(s backend.Stream, p *backend.GatherParams[B]) error {
	for {
		err := d.tryGather(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("gather", err); err != nil {
			return err
		}
	}
}

// tryGather is Gather, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryGather(s backend.Stream, p *backend.GatherParams[B]) error {
	const op = "gather"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Gather(p); err != nil {
		return err
	}
	return d.run(op, own, launch.Gather(own.Calls(), p))
}

// ClearScores is Backend.ClearScores. It does not retain p.
func (d *Device[B, S, E, R]) ClearScores(s backend.Stream, p *backend.ClearScoresParams[B]) error {
	for {
		err := d.tryClearScores(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("clear scores", err); err != nil {
			return err
		}
	}
}

// tryClearScores is ClearScores, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryClearScores(s backend.Stream, p *backend.ClearScoresParams[B]) error {
	const op = "clear scores"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.ClearScores(p); err != nil {
		return err
	}
	return d.run(op, own, launch.ClearScores(own.Calls(), p))
}

// CopyBlocks is Backend.CopyBlocks. It does not retain p.
func (d *Device[B, S, E, R]) CopyBlocks(s backend.Stream, p *backend.CopyBlocksParams[B]) error {
	for {
		err := d.tryCopyBlocks(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("copy blocks", err); err != nil {
			return err
		}
	}
}

// tryCopyBlocks is CopyBlocks, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryCopyBlocks(s backend.Stream, p *backend.CopyBlocksParams[B]) error {
	const op = "copy blocks"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.CopyBlocks(p); err != nil {
		return err
	}
	return d.run(op, own, launch.CopyBlocks(own.Calls(), p))
}

// MoveSlots is Backend.MoveSlots. It does not retain p.
func (d *Device[B, S, E, R]) MoveSlots(s backend.Stream, p *backend.MoveSlotsParams[B]) error {
	for {
		err := d.tryMoveSlots(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("move slots", err); err != nil {
			return err
		}
	}
}

// tryMoveSlots is MoveSlots, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryMoveSlots(s backend.Stream, p *backend.MoveSlotsParams[B]) error {
	const op = "move slots"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.MoveSlots(p); err != nil {
		return err
	}
	return d.run(op, own, launch.MoveSlots(own.Calls(), p))
}

// ConvertBlocks is Backend.ConvertBlocks. It does not retain p.
func (d *Device[B, S, E, R]) ConvertBlocks(s backend.Stream, p *backend.ConvertBlocksParams[B]) error {
	for {
		err := d.tryConvertBlocks(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("convert blocks", err); err != nil {
			return err
		}
	}
}

// tryConvertBlocks is ConvertBlocks, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryConvertBlocks(s backend.Stream, p *backend.ConvertBlocksParams[B]) error {
	const op = "convert blocks"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.ConvertBlocks(p); err != nil {
		return err
	}
	return d.run(op, own, launch.ConvertBlocks(own.Calls(), p))
}

// Rotate is Backend.Rotate. It does not retain p.
func (d *Device[B, S, E, R]) Rotate(s backend.Stream, p *backend.RotateParams[B]) error {
	for {
		err := d.tryRotate(s, p)
		if err == nil {
			return nil
		}
		if err = d.load("rotate", err); err != nil {
			return err
		}
	}
}

// tryRotate is Rotate, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryRotate(s backend.Stream, p *backend.RotateParams[B]) error {
	const op = "rotate"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Rotate(p); err != nil {
		return err
	}
	return d.run(op, own, launch.Rotate(own.Calls(), p))
}
