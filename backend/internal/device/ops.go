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

// Fill is Backend.Fill.
func (d *Device[B, S, E, R]) Fill(s backend.Stream, dst B, off, n int, v float64) error {
	for {
		err := d.tryFill(s, dst, off, n, v)
		if err == nil {
			return nil
		}
		if err = d.load("fill", err); err != nil {
			return err
		}
	}
}

// tryFill is Fill, unless its kernel is Missing.
func (d *Device[B, S, E, R]) tryFill(s backend.Stream, dst B, off, n int, v float64) error {
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
	for {
		err := d.tryCopy(s, dst, dstOff, src, srcOff, n)
		if err == nil {
			return nil
		}
		if err = d.load("copy", err); err != nil {
			return err
		}
	}
}

// tryCopy is Copy, unless its kernel is Missing.
func (d *Device[B, S, E, R]) tryCopy(s backend.Stream, dst B, dstOff int, src B, srcOff, n int) error {
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
// runs at once; it is asked for the kernels of the kinds that the step contains.
func (d *Device[B, S, E, R]) Plan(s backend.AttendShape, resident func(launch.Kernel) (int, error)) (backend.AttendPlan, error) {
	for {
		p, err := d.tryPlan(s, resident)
		if err == nil {
			return p, nil
		}
		if err = d.load("plan attend", err); err != nil {
			return backend.AttendPlan{}, err
		}
	}
}

// tryPlan is Plan, unless a kernel is Missing.
func (d *Device[B, S, E, R]) tryPlan(s backend.AttendShape, resident func(launch.Kernel) (int, error)) (backend.AttendPlan, error) {
	const op = "plan attend"
	if err := d.Use(op); err != nil {
		return backend.AttendPlan{}, err
	}
	defer d.End()
	p, err := launch.Plan(d.caps, s, resident)
	return p, d.Failed(op, err)
}
