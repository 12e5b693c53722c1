package cpu

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// Upload copies src into dst from element off on.
func (be *Backend) Upload(s backend.Stream, dst *Buffer, off int, src []byte) error {
	window, err := be.window("upload", s, "destination", dst, off, len(src))
	if err != nil {
		return err
	}
	defer be.end()
	dst.changes()
	defer dst.changes()
	copy(window, src)
	return nil
}

// Download copies elements of src, from element off on, into dst.
func (be *Backend) Download(s backend.Stream, dst []byte, src *Buffer, off int) error {
	window, err := be.window("download", s, "source", src, off, len(dst))
	if err != nil {
		return err
	}
	defer be.end()
	copy(dst, window)
	return nil
}

// window begins an operation and returns the bytes of b that a transfer touches.
// The caller ends the operation unless there is an error.
func (be *Backend) window(op string, s backend.Stream, name string, b *Buffer, off, bytes int) ([]byte, error) {
	ops, err := be.begin(op, s)
	if err != nil {
		return nil, err
	}
	lo := 0
	if ops.Buf(name, b); ops.Err == nil {
		lo, ops.Err = check.Transfer(op, name, b, off, bytes)
	}
	if ops.Err != nil {
		be.end()
		return nil, ops.Err
	}
	return b.mem[lo:][:bytes], nil
}

// Copy copies n elements between buffers of one DType. The ranges may overlap.
func (be *Backend) Copy(s backend.Stream, dst *Buffer, dstOff int, src *Buffer, srcOff, n int) error {
	ops, err := be.begin("copy", s)
	if err != nil {
		return err
	}
	defer be.end()
	ops.Buf("destination", dst)
	ops.Buf("source", src)
	if ops.Err != nil {
		return ops.Err
	}
	to, toEnd, from, err := check.Copied(dst, dstOff, src, srcOff, n)
	if err != nil {
		return err
	}
	dst.changes()
	defer dst.changes()
	return be.moveElements(dst.mem[to:toEnd], src.mem[from:][:toEnd-to], n, dst.dt)
}

// moveElements copies n elements that may overlap. The upper half of the last byte
// of an odd number of half-byte elements belongs to a neighbour and stays.
func (be *Backend) moveElements(dst, src []byte, n int, dt backend.DType) error {
	if dt.Bits() < 8 && n%2 != 0 {
		last := len(dst) - 1
		keep, low := dst[last]&0xf0, src[last]&0x0f
		defer func() { dst[last] = keep | low }()
	}
	return be.copy(dst, src)
}

// Fill sets n elements from off on to v, rounded to the storage type. ErrArgument when an integer type
// cannot hold v; ErrUnsupported for a value other than 0 in a quantized type.
func (be *Backend) Fill(s backend.Stream, dst *Buffer, off, n int, v float64) error {
	ops, err := be.begin("fill", s)
	if err != nil {
		return err
	}
	defer be.end()
	if ops.Buf("destination", dst); ops.Err != nil {
		return ops.Err
	}
	lo, hi, err := check.Span("fill", "destination", dst, off, n)
	if err != nil {
		return err
	}
	element, err := check.Element("fill", dst.dt, v)
	if err != nil || n == 0 {
		return err
	}
	dst.changes()
	defer dst.changes()
	mem := dst.mem[lo:hi]
	if dst.dt.Bits() < 8 { // zeros
		if n%2 != 0 {
			mem[len(mem)-1] &= 0xf0
			mem = mem[:len(mem)-1]
		}
		clear(mem)
		return nil
	}
	for done := copy(mem, element[:dst.dt.Bits()/8]); done < len(mem); {
		done += copy(mem[done:], mem[:done])
	}
	return nil
}
