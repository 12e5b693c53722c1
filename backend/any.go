package backend

// AnyBuffer is a buffer of a device that was chosen at run time. The zero value
// holds no buffer.
type AnyBuffer struct{ buf Buffer }

func (a AnyBuffer) Len() int {
	if a.buf == nil {
		return 0
	}
	return a.buf.Len()
}

func (a AnyBuffer) DType() DType {
	if a.buf == nil {
		return Invalid
	}
	return a.buf.DType()
}

func (a AnyBuffer) Bytes() int64 {
	if a.buf == nil {
		return 0
	}
	return a.buf.Bytes()
}

// Wrap returns b as an AnyBuffer.
func Wrap[B Buffer](b B) AnyBuffer { return AnyBuffer{b} }

// Unwrap returns the device's own buffer. It is false when that is not of type B.
func Unwrap[B Buffer](a AnyBuffer) (B, bool) {
	b, ok := a.buf.(B)
	return b, ok
}

// Erase returns be as a Backend[AnyBuffer]. Calls cost a type assertion for each operand and
// allocate nothing. A buffer of another kind of device is ErrOtherDevice.
func Erase[B Buffer](be Backend[B]) Backend[AnyBuffer] { return &erased[B]{be} }

// Typed returns the device that Erase or Open wrapped. It is false when its buffers are not of type
// B.
func Typed[B Buffer](be Backend[AnyBuffer]) (Backend[B], bool) {
	if e, ok := be.(*erased[B]); ok {
		return e.be, true
	}
	return nil, false
}

// erased adapts a typed backend. Each method unwraps its operands; the first
// that does not fit is reported once all are unwrapped. Methods are those of the pointer: an
// interface that holds a struct calls its methods through a wrapper that copies all parameters.
type erased[B Buffer] struct{ be Backend[B] }

func (e *erased[B]) Info() Info                                   { return e.be.Info() }
func (e *erased[B]) Caps() Caps                                   { return e.be.Caps() }
func (e *erased[B]) NewStream() (Stream, error)                   { return e.be.NewStream() }
func (e *erased[B]) ImportStream(h Handle) (Stream, error)        { return e.be.ImportStream(h) }
func (e *erased[B]) NewEvent() (Event, error)                     { return e.be.NewEvent() }
func (e *erased[B]) PlanAttend(s AttendShape) (AttendPlan, error) { return e.be.PlanAttend(s) }
func (e *erased[B]) Close() error                                 { return e.be.Close() }

func (e *erased[B]) Alloc(dt DType, n int) (AnyBuffer, error) { return wrapped(e.be.Alloc(dt, n)) }

func (e *erased[B]) Import(h Handle, dt DType, n int) (AnyBuffer, error) {
	return wrapped(e.be.Import(h, dt, n))
}

func (e *erased[B]) SubBuffer(b AnyBuffer, offset int64, dt DType, n int) (AnyBuffer, error) {
	var u unwrapper[B]
	buf := u.buf(b)
	if err := u.ok("sub-buffer"); err != nil {
		return AnyBuffer{}, err
	}
	return wrapped(e.be.SubBuffer(buf, offset, dt, n))
}

func wrapped[B Buffer](b B, err error) (AnyBuffer, error) {
	if err != nil {
		return AnyBuffer{}, err
	}
	return AnyBuffer{b}, nil
}

func (e *erased[B]) Free(b AnyBuffer) error {
	var u unwrapper[B]
	buf := u.buf(b)
	if err := u.ok("free"); err != nil {
		return err
	}
	return e.be.Free(buf)
}

func (e *erased[B]) Handle(b AnyBuffer) (Handle, error) {
	var u unwrapper[B]
	buf := u.buf(b)
	if err := u.ok("handle"); err != nil {
		return Handle{}, err
	}
	return e.be.Handle(buf)
}

func (e *erased[B]) Upload(s Stream, dst AnyBuffer, off int, src []byte) error {
	var u unwrapper[B]
	buf := u.buf(dst)
	if err := u.ok("upload"); err != nil {
		return err
	}
	return e.be.Upload(s, buf, off, src)
}

func (e *erased[B]) Download(s Stream, dst []byte, src AnyBuffer, off int) error {
	var u unwrapper[B]
	buf := u.buf(src)
	if err := u.ok("download"); err != nil {
		return err
	}
	return e.be.Download(s, dst, buf, off)
}

func (e *erased[B]) Copy(s Stream, dst AnyBuffer, dstOff int, src AnyBuffer, srcOff, n int) error {
	var u unwrapper[B]
	d, from := u.buf(dst), u.buf(src)
	if err := u.ok("copy"); err != nil {
		return err
	}
	return e.be.Copy(s, d, dstOff, from, srcOff, n)
}

func (e *erased[B]) Fill(s Stream, dst AnyBuffer, off, n int, v float64) error {
	var u unwrapper[B]
	buf := u.buf(dst)
	if err := u.ok("fill"); err != nil {
		return err
	}
	return e.be.Fill(s, buf, off, n, v)
}
