package device

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/internal/operands"
)

// operate enqueues one operation: its buffers and shapes are checked, then its parameters
// become calls, then those are launched.
func operate[P any, B buffer, S stream, E member, R error](d *Device[B, S, E, R], op string, s backend.Stream, p P,
	check func(operands.Operands[B, owner[B, S, E, R]], P) error, calls func(*launch.Calls, P) error) error {
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := check(ops, p); err != nil {
		return err
	}
	if err := calls(own.Calls(), p); err != nil {
		return d.Failed(op, err) // of the driver, where a stream first quantizes
	}
	return d.Failed(op, own.Run())
}

// Append is Backend.Append.
func (d *Device[B, S, E, R]) Append(s backend.Stream, p backend.AppendParams[B]) error {
	return operate(d, "append", s, p, operands.Operands[B, owner[B, S, E, R]].Append, launch.Append[B])
}

// Attend is Backend.Attend.
func (d *Device[B, S, E, R]) Attend(s backend.Stream, p backend.AttendParams[B]) error {
	return operate(d, "attend", s, p, operands.Operands[B, owner[B, S, E, R]].Attend, launch.Attend[B])
}

// Merge is Backend.Merge.
func (d *Device[B, S, E, R]) Merge(s backend.Stream, p backend.MergeParams[B]) error {
	return operate(d, "merge", s, p, operands.Operands[B, owner[B, S, E, R]].Merge, launch.Merge[B])
}

// Gather is Backend.Gather.
func (d *Device[B, S, E, R]) Gather(s backend.Stream, p backend.GatherParams[B]) error {
	return operate(d, "gather", s, p, operands.Operands[B, owner[B, S, E, R]].Gather, launch.Gather[B])
}

// CopyBlocks is Backend.CopyBlocks.
func (d *Device[B, S, E, R]) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[B]) error {
	return operate(d, "copy blocks", s, p, operands.Operands[B, owner[B, S, E, R]].CopyBlocks, launch.CopyBlocks[B])
}

// MoveSlots is Backend.MoveSlots.
func (d *Device[B, S, E, R]) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[B]) error {
	return operate(d, "move slots", s, p, operands.Operands[B, owner[B, S, E, R]].MoveSlots, launch.MoveSlots[B])
}

// ConvertBlocks is Backend.ConvertBlocks.
func (d *Device[B, S, E, R]) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[B]) error {
	return operate(d, "convert blocks", s, p, operands.Operands[B, owner[B, S, E, R]].ConvertBlocks, launch.ConvertBlocks[B])
}

// Rotate is Backend.Rotate.
func (d *Device[B, S, E, R]) Rotate(s backend.Stream, p backend.RotateParams[B]) error {
	return operate(d, "rotate", s, p, operands.Operands[B, owner[B, S, E, R]].Rotate, launch.Rotate[B])
}

// Fill is Backend.Fill.
func (d *Device[B, S, E, R]) Fill(s backend.Stream, dst B, off, n int, v float64) error {
	const op = "fill"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if ops.Buf("destination", dst); ops.Err != nil {
		return ops.Err
	}
	if err := launch.Fill(own.Calls(), dst, off, n, v); err != nil {
		return err
	}
	return d.Failed(op, own.Run())
}

// Copy is Backend.Copy.
func (d *Device[B, S, E, R]) Copy(s backend.Stream, dst B, dstOff int, src B, srcOff, n int) error {
	const op = "copy"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	ops.Buf("destination", dst)
	if ops.Buf("source", src); ops.Err != nil {
		return ops.Err
	}
	return d.Failed(op, launch.Move(own, dst, dstOff, src, srcOff, n))
}

// Plan is Backend.PlanAttend. resident is how many blocks of a kernel the whole device
// runs at once; it is asked for each kernel that the step may need.
func (d *Device[B, S, E, R]) Plan(s backend.AttendShape, resident func(launch.Kernel) (int, error)) (backend.AttendPlan, error) {
	const op = "plan attend"
	if err := d.Use(op); err != nil {
		return backend.AttendPlan{}, err
	}
	defer d.End()
	p, err := launch.Plan(d.caps, s, resident)
	return p, d.Failed(op, err)
}
