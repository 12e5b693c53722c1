package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Upload copies src into dst from element off on.
func (be *Backend) Upload(s backend.Stream, dst *Buffer, off int, src []byte) error {
	window, err := be.window("upload", s, "destination", dst, off, len(src))
	if err != nil {
		return err
	}
	defer be.end()
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
	if ops.buf(name, b); ops.err == nil {
		lo, ops.err = check.Transfer(op, name, b, off, bytes)
	}
	if ops.err != nil {
		be.end()
		return nil, ops.err
	}
	return b.mem[lo:][:bytes], nil
}

// Copy moves n elements between buffers of one DType; overlap is allowed.
func (be *Backend) Copy(s backend.Stream, dst *Buffer, dstOff int, src *Buffer, srcOff, n int) error {
	ops, err := be.begin("copy", s)
	if err != nil {
		return err
	}
	defer be.end()
	ops.buf("destination", dst)
	ops.buf("source", src)
	if ops.err != nil {
		return ops.err
	}
	if dst.dt != src.dt {
		return backend.ErrShape{Op: "copy", What: fmt.Sprintf("source: elements are %s, need %s", src.dt, dst.dt)}
	}
	to, toEnd, err := check.Span("copy", "destination", dst, dstOff, n)
	if err != nil {
		return err
	}
	from, fromEnd, err := check.Span("copy", "source", src, srcOff, n)
	if err != nil {
		return err
	}
	moveElements(dst.mem[to:toEnd], src.mem[from:fromEnd], n, dst.dt)
	return nil
}

// moveElements copies n elements that may overlap. The upper half of the last byte
// of an odd number of half-byte elements belongs to a neighbour and stays.
func moveElements(dst, src []byte, n int, dt backend.DType) {
	if dt.Bits() < 8 && n%2 != 0 {
		last := len(dst) - 1
		keep, low := dst[last]&0xf0, src[last]&0x0f
		defer func() { dst[last] = keep | low }()
	}
	copy(dst, src)
}

// Fill sets n elements from off on to v, rounded to the storage type. An integer
// type must be able to hold v (ErrShape); the types that need a scale beside them
// take 0 only (ErrUnsupported).
func (be *Backend) Fill(s backend.Stream, dst *Buffer, off, n int, v float64) error {
	ops, err := be.begin("fill", s)
	if err != nil {
		return err
	}
	defer be.end()
	if ops.buf("destination", dst); ops.err != nil {
		return ops.err
	}
	lo, hi, err := check.Span("fill", "destination", dst, off, n)
	if err != nil {
		return err
	}
	var element [8]byte
	if err := encodeElement(&element, dst.dt, v); err != nil || n == 0 {
		return err
	}
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

// encodeElement writes v as one element of dt.
func encodeElement(dst *[8]byte, dt backend.DType, v float64) error {
	switch dt {
	case backend.F32:
		binary.NativeEndian.PutUint32(dst[:], math.Float32bits(float32(v)))
		return nil
	case backend.F16:
		binary.NativeEndian.PutUint16(dst[:], quant.F16(float32(v)))
		return nil
	case backend.BF16:
		binary.NativeEndian.PutUint16(dst[:], quant.BF16(float32(v)))
		return nil
	case backend.FP8E4M3, backend.FP8E5M2, backend.Int4:
		if v != 0 {
			return backend.ErrUnsupported{Op: "fill", Why: fmt.Sprintf("%v in a buffer of %s", v, dt)}
		}
		return nil
	}
	lowest, limit := integers(dt)
	whole := math.RoundToEven(v)
	if !(whole >= lowest && whole < limit) {
		return backend.ErrShape{Op: "fill", What: fmt.Sprintf("value: have %v, need one that %s holds", v, dt)}
	}
	switch bits := int64(whole); dt.Bits() {
	case 8:
		dst[0] = byte(bits)
	case 32:
		binary.NativeEndian.PutUint32(dst[:], uint32(bits))
	default:
		binary.NativeEndian.PutUint64(dst[:], uint64(bits))
	}
	return nil
}

// integers is the lowest value of an integer type, and the first one above its highest.
func integers(dt backend.DType) (lowest, limit float64) {
	if dt == backend.U32 {
		return 0, 1 << 32
	}
	limit = math.Ldexp(1, dt.Bits()-1)
	return -limit, limit
}
