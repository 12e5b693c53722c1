package backendtest

import "github.com/ferrumkv/ferrumkv/backend"

// Alloc fails, too, where SetMemory leaves no room.
func (f *Faulty[B]) Alloc(dt backend.DType, n int) (B, error) {
	err := f.ask(OpAlloc, nil)
	if err == nil {
		err = f.room(dt, n)
	}
	if err != nil {
		var none B
		return none, err
	}
	return f.Backend.Alloc(dt, n)
}

func (f *Faulty[B]) Import(h backend.Handle, dt backend.DType, n int) (B, error) {
	if err := f.ask(OpImport, nil); err != nil {
		var none B
		return none, err
	}
	return f.Backend.Import(h, dt, n)
}

// Free fails where the device was lost; Close frees the buffer then.
func (f *Faulty[B]) Free(b B) error {
	if err := f.present("free"); err != nil {
		return err
	}
	return f.Backend.Free(b)
}

func (f *Faulty[B]) Handle(b B) (backend.Handle, error) {
	if err := f.present("handle"); err != nil {
		return backend.Handle{}, err
	}
	return f.Backend.Handle(b)
}

func (f *Faulty[B]) PlanAttend(shape backend.AttendShape) (backend.AttendPlan, error) {
	if err := f.ask(OpPlanAttend, nil); err != nil {
		return backend.AttendPlan{}, err
	}
	return f.Backend.PlanAttend(shape)
}

func (f *Faulty[B]) Upload(s backend.Stream, dst B, off int, src []byte) error {
	under, err := f.under(OpUpload, s)
	if err != nil {
		return err
	}
	return f.Backend.Upload(under, dst, off, src)
}

func (f *Faulty[B]) Download(s backend.Stream, dst []byte, src B, off int) error {
	under, err := f.under(OpDownload, s)
	if err != nil {
		return err
	}
	return f.Backend.Download(under, dst, src, off)
}

func (f *Faulty[B]) Copy(s backend.Stream, dst B, dstOff int, src B, srcOff, n int) error {
	under, err := f.under(OpCopy, s)
	if err != nil {
		return err
	}
	return f.Backend.Copy(under, dst, dstOff, src, srcOff, n)
}

func (f *Faulty[B]) Fill(s backend.Stream, dst B, off, n int, v float64) error {
	under, err := f.under(OpFill, s)
	if err != nil {
		return err
	}
	return f.Backend.Fill(under, dst, off, n, v)
}

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
