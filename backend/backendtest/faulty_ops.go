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

func (f *Faulty[B]) SubBuffer(b B, offset int64, dt backend.DType, n int) (B, error) {
	if err := f.ask(OpSubBuffer, nil); err != nil {
		var none B
		return none, err
	}
	return f.Backend.SubBuffer(b, offset, dt, n)
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
