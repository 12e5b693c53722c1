//go:build linux && cgo && !nocuda

package cuda

import (
	"encoding/binary"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// scratchSize is the most memory, in bytes, that a copy which overlaps itself takes.
const scratchSize = 4 << 20

// fillGrid bounds the blocks of a fill: enough to keep any device's memory busy,
// while its threads go on from there.
const fillGrid, fillBytes = 4096, 4096 // blocks, and bytes that one of them sets at once

// Upload copies src into dst from element off on. It waits only for its own
// earlier uploads, when they have not yet left the page-locked memory between.
func (be *Backend) Upload(s backend.Stream, dst *Buffer, off int, src []byte) error {
	t, err := be.transfer("upload", s, "destination", dst, off, len(src))
	if err != nil {
		return err
	}
	defer t.stream.release()
	return be.failed("upload", t.stream.ring.Upload(src, func(piece []byte, at int) error {
		if err := t.begin(); err != nil {
			return err
		}
		defer be.end()
		return be.ctx.CopyToDevice(t.ptr+driver.Ptr(at), piece, t.stream.cu)
	}))
}

// Download copies elements of src, from element off on, into dst, and waits for it.
func (be *Backend) Download(s backend.Stream, dst []byte, src *Buffer, off int) error {
	t, err := be.transfer("download", s, "source", src, off, len(dst))
	if err != nil {
		return err
	}
	defer t.stream.release()
	if len(dst) == 0 {
		return be.failed("download", be.ctx.Sync(t.stream.cu))
	}
	return be.failed("download", t.stream.ring.Download(dst, func(piece []byte, at int) error {
		if err := t.begin(); err != nil {
			return err
		}
		defer be.end()
		return be.ctx.CopyToHost(piece, t.ptr+driver.Ptr(at), t.stream.cu)
	}))
}

// transfer is an upload or a download. The host may wait during one, so it does not
// hold the lock that Free needs: each piece begins and ends an operation.
type transfer struct {
	be     *Backend
	op     string
	name   string // of the operand
	buffer *Buffer
	ptr    driver.Ptr
	stream *stream
}

// transfer checks one, and holds the stream until the caller releases it.
func (be *Backend) transfer(op string, s backend.Stream, name string, b *Buffer, off, bytes int) (transfer, error) {
	ops, own, err := be.begin(op, s)
	if err != nil {
		return transfer{}, err
	}
	defer be.end()
	lo := 0
	if ops.Buf(name, b); ops.Err == nil {
		lo, ops.Err = check.Transfer(op, name, b, off, bytes)
	}
	if ops.Err != nil {
		return transfer{}, ops.Err
	}
	own.waiting.RLock()
	return transfer{be, op, name, b, b.ptr + driver.Ptr(lo), own}, nil
}

// begin begins the operation that enqueues a piece; the caller ends it.
func (t *transfer) begin() error {
	ops, _, err := t.be.begin(t.op, t.stream)
	if err != nil {
		return err
	}
	if ops.Buf(t.name, t.buffer); ops.Err != nil {
		t.be.end()
	}
	return ops.Err
}

// Copy moves n elements between buffers of one DType; overlap is allowed, and takes
// some memory of the device until the copy is done.
func (be *Backend) Copy(s backend.Stream, dst *Buffer, dstOff int, src *Buffer, srcOff, n int) error {
	ops, own, err := be.begin("copy", s)
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
	halfByte := dst.dt.Bits() < 8 && n%2 != 0
	return be.failed("copy", own.move(dst.ptr+driver.Ptr(to), src.ptr+driver.Ptr(from), toEnd-to, halfByte))
}

// move copies size bytes that may overlap; of the last one only the lower half,
// where the upper half is a neighbour's.
func (s *stream) move(dst, src driver.Ptr, size int, halfByte bool) error {
	if size == 0 || dst == src {
		return nil
	}
	if !halfByte {
		return s.moveBytes(dst, src, size)
	}
	last := driver.Ptr(size - 1)
	if dst < src {
		if err := s.moveBytes(dst, src, size-1); err != nil {
			return err
		}
		return s.copyBits(dst+last, src+last, 0x0f)
	}
	// The bytes before may cover the source of the last one.
	if err := s.copyBits(dst+last, src+last, 0x0f); err != nil {
		return err
	}
	return s.moveBytes(dst, src, size-1)
}

// copyBits copies the bits of mask of one byte.
func (s *stream) copyBits(dst, src driver.Ptr, mask uint32) error {
	k, err := s.be.modules.find(kernelID{op: copyBitsOp})
	if err != nil {
		return err
	}
	args := abi.CopyBitsArgs{Mask: mask}
	return s.launch(k, [3]uint32{1, 1, 1}, args.Encode(), dst, src)
}

// moveBytes copies size bytes. Where the ranges overlap, pieces pass through
// scratch memory, from the end that is not yet needed on.
func (s *stream) moveBytes(dst, src driver.Ptr, size int) error {
	ctx := s.be.ctx
	switch apart := max(dst, src) - min(dst, src); {
	case size == 0:
		return nil
	case apart >= driver.Ptr(size):
		return ctx.Copy(dst, src, size, s.cu)
	}
	piece := min(size, scratchSize)
	scratch, err := s.be.memory.scratch(piece, s.cu)
	if err != nil {
		return err
	}
	for done := 0; done < size && err == nil; done += piece {
		n := min(piece, size-done)
		at := driver.Ptr(done)
		if dst > src {
			at = driver.Ptr(size - done - n)
		}
		if err = ctx.Copy(scratch, src+at, n, s.cu); err == nil {
			err = ctx.Copy(dst+at, scratch, n, s.cu)
		}
	}
	if drop := s.be.memory.dropScratch(scratch, s.cu); err == nil {
		err = drop
	}
	return err
}

// Fill sets n elements from off on to v, rounded to the storage type. An integer
// type must be able to hold v (ErrShape); the types that need a scale beside them
// take 0 only (ErrUnsupported).
func (be *Backend) Fill(s backend.Stream, dst *Buffer, off, n int, v float64) error {
	ops, own, err := be.begin("fill", s)
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
	k, err := be.modules.find(kernelID{op: fillOp})
	if err != nil {
		return be.failed("fill", err)
	}
	args := abi.FillArgs{LastMask: 0xff, Pattern: binary.LittleEndian.Uint64(element[:]), Bytes: int64(hi - lo), Elem: uint32(max(dst.dt.Bits()/8, 1))}
	if dst.dt.Bits() < 8 && n%2 != 0 {
		args.LastMask = 0x0f
	}
	blocks := min((args.Bytes+fillBytes-1)/fillBytes, fillGrid)
	return be.failed("fill", own.launch(k, [3]uint32{uint32(blocks), 1, 1}, args.Encode(), dst.ptr+driver.Ptr(lo)))
}
