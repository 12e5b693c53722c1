package device

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// run ends an operation: the calls that its parameters became are launched, unless err says
// why there are none.
func (d *Device[B, S, E, R]) run(op string, s S, err error) error {
	if err == nil {
		err = s.Run()
	}
	return d.Failed(op, err) // also of the driver, where a stream first quantizes
}

// The operations are written out: one that is handed functions for the check and the calls
// makes each launch longer by 10 to 30 ns (BenchmarkHost of backend/cuda).

// Append is Backend.Append.
func (d *Device[B, S, E, R]) Append(s backend.Stream, p backend.AppendParams[B]) error {
	const op = "append"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Append(&p); err != nil {
		return err
	}
	return d.run(op, own, launch.Append(own.Calls(), p))
}

// Attend is Backend.Attend.
func (d *Device[B, S, E, R]) Attend(s backend.Stream, p backend.AttendParams[B]) error {
	const op = "attend"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Attend(&p); err != nil {
		return err
	}
	return d.run(op, own, launch.Attend(own.Calls(), p))
}

// Merge is Backend.Merge.
func (d *Device[B, S, E, R]) Merge(s backend.Stream, p backend.MergeParams[B]) error {
	const op = "merge"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Merge(&p); err != nil {
		return err
	}
	return d.run(op, own, launch.Merge(own.Calls(), p))
}

// Gather is Backend.Gather.
func (d *Device[B, S, E, R]) Gather(s backend.Stream, p backend.GatherParams[B]) error {
	const op = "gather"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Gather(&p); err != nil {
		return err
	}
	return d.run(op, own, launch.Gather(own.Calls(), p))
}

// CopyBlocks is Backend.CopyBlocks.
func (d *Device[B, S, E, R]) CopyBlocks(s backend.Stream, p backend.CopyBlocksParams[B]) error {
	const op = "copy blocks"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.CopyBlocks(&p); err != nil {
		return err
	}
	return d.run(op, own, launch.CopyBlocks(own.Calls(), p))
}

// MoveSlots is Backend.MoveSlots.
func (d *Device[B, S, E, R]) MoveSlots(s backend.Stream, p backend.MoveSlotsParams[B]) error {
	const op = "move slots"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.MoveSlots(&p); err != nil {
		return err
	}
	return d.run(op, own, launch.MoveSlots(own.Calls(), p))
}

// ConvertBlocks is Backend.ConvertBlocks.
func (d *Device[B, S, E, R]) ConvertBlocks(s backend.Stream, p backend.ConvertBlocksParams[B]) error {
	const op = "convert blocks"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.ConvertBlocks(&p); err != nil {
		return err
	}
	return d.run(op, own, launch.ConvertBlocks(own.Calls(), p))
}

// Rotate is Backend.Rotate.
func (d *Device[B, S, E, R]) Rotate(s backend.Stream, p backend.RotateParams[B]) error {
	const op = "rotate"
	ops, own, err := d.Begin(op, s)
	if err != nil {
		return err
	}
	defer d.End()
	if err := ops.Rotate(&p); err != nil {
		return err
	}
	return d.run(op, own, launch.Rotate(own.Calls(), p))
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
