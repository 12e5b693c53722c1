//go:build linux && cgo && !nocuda

package cuda

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// Buffer is memory of one Backend's device.
type Buffer struct{ deviceBuffer }

// deviceBuffer is embedded under a name of this package, so that it is no exported
// field of Buffer.
type deviceBuffer = device.Buffer

func newBuffer(dt backend.DType, n, size int, ptr driver.Ptr, imported bool) *Buffer {
	return &Buffer{device.NewBuffer(dt, n, size, launch.Place{At: uint64(ptr)}, imported)}
}

// own is what the methods of a nil buffer can be called on.
func (b *Buffer) own() *device.Buffer {
	if b == nil {
		return nil
	}
	return &b.deviceBuffer
}

// Len is the number of elements.
func (b *Buffer) Len() int { return b.own().Len() }

// DType is the storage type of an element; Invalid of a nil buffer.
func (b *Buffer) DType() backend.DType { return b.own().DType() }

// Bytes is the storage of all elements.
func (b *Buffer) Bytes() int64 { return b.own().Bytes() }

// Alloc returns n uninitialised elements, aligned to 256 bytes, which all streams can use. Only
// when there is too little memory it waits for work on the device, to reuse freed memory.
// ErrOutOfMemory when that is not enough; ErrArgument when the type is invalid, n is negative or the
// size overflows.
func (be *Backend) Alloc(dt backend.DType, n int) (*Buffer, error) {
	size, err := check.Size("alloc", dt, n)
	if err != nil {
		return nil, err
	}
	if err := be.dev.Lock("alloc"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	if all := be.ctx.Device.Memory; int64(size) > all {
		return nil, fmt.Errorf("%s: %w", be.dev.Name(), backend.ErrOutOfMemory{Op: "alloc", Bytes: int64(size), Max: all})
	}
	var ptr driver.Ptr
	if size > 0 {
		if ptr, err = be.memory.obtain(size); err != nil {
			return nil, be.dev.Failed("alloc", fmt.Errorf("%s requested: %w", bytesize.String(int64(size)), err))
		}
	}
	b := newBuffer(dt, n, size, ptr, false)
	be.dev.AddBuffer(b)
	return b, nil
}

// Free releases the memory after all work that was enqueued before on this Backend's streams,
// without waiting for it (on devices without memory pools it waits), and frees the buffer's
// sub-buffers. Imported memory, and that of a sub-buffer, is left as it is.
func (be *Backend) Free(b *Buffer) error {
	if err := be.dev.Lock("free"); err != nil {
		return err
	}
	defer be.dev.Unlock()
	if err := be.dev.Forget(b, be.outlive); err != nil {
		return err
	}
	return be.dev.Failed("free", be.release(b))
}

// outlive makes memory that is released from here on stay for what is enqueued on s.
func (be *Backend) outlive(s *stream) error {
	if !s.capturing {
		if err := s.uncaptured("free"); err != nil {
			return err
		}
		if err := be.ctx.Record(s.tail, s.cu); err != nil {
			return err
		}
	}
	return be.memory.after(s.tail)
}

// release gives the memory of b back, where there is some of ours.
func (be *Backend) release(b *Buffer) error {
	if !b.Owned() {
		return nil
	}
	return be.memory.release(driver.Ptr(b.Place().At))
}

// Import makes a buffer of memory of this device, h.Addr a CUdeviceptr, without a copy. ErrArgument
// when it is not device memory, too short or not aligned to an element; ErrOtherDevice when it belongs
// to another device or context.
func (be *Backend) Import(h backend.Handle, dt backend.DType, n int) (*Buffer, error) {
	size, err := check.Size("import", dt, n)
	if err != nil {
		return nil, err
	}
	if err := be.dev.Lock("import"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	if h.Host != nil || h.Offset != 0 {
		return nil, importError("handle: a host slice or an offset, need the address of device memory")
	}
	if align := uintptr(max(dt.Bits()/8, 1)); h.Addr%align != 0 {
		return nil, importError("handle: %#x is not aligned to the %d bytes of %s", h.Addr, align, dt)
	}
	if size > 0 {
		if err := be.reaches(driver.Ptr(h.Addr), size); err != nil {
			return nil, err
		}
	}
	b := newBuffer(dt, n, size, driver.Ptr(h.Addr), true)
	be.dev.AddBuffer(b)
	return b, nil
}

// reaches reports whether size bytes from p on are memory of the device.
func (be *Backend) reaches(p driver.Ptr, size int) error {
	at, err := be.ctx.Describe(p)
	if err := be.dev.Failed("import", err); be.dev.Lost() {
		return err
	}
	switch end := at.Start + driver.Ptr(at.Size); {
	case err != nil || !at.OnDevice:
		return importError("handle: %#x is no device memory", p)
	case at.Ordinal != be.ctx.Device.Ordinal || at.Foreign:
		return fmt.Errorf("%s: import: memory %w", be.dev.Name(), backend.ErrOtherDevice)
	case at.Size != 0 && (p < at.Start || p >= end || uint64(size) > uint64(end-p)):
		return importError("handle: %#x has %d bytes, need %d", p, uint64(end-p), size)
	}
	return nil
}

func importError(format string, args ...any) error {
	return backend.ErrArgument{Op: "import", What: fmt.Sprintf(format, args...)}
}

// SubBuffer returns n elements of dt in the memory of b, from byte offset on, which is aligned to
// an element (ErrArgument). Operations whose kernels need more alignment check it. Freeing b frees it,
// too.
func (be *Backend) SubBuffer(b *Buffer, offset int64, dt backend.DType, n int) (*Buffer, error) {
	const op = "sub-buffer"
	if err := be.dev.Lock(op); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	if err := be.dev.LockedBuffer(op, b); err != nil {
		return nil, err
	}
	size, err := check.SubBuffer(b, b.Place().At, offset, dt, n)
	if err != nil {
		return nil, err
	}
	sub := &Buffer{device.NewSubBuffer(b.own(), offset, dt, n, size)}
	be.dev.AddBuffer(sub)
	return sub, nil
}

// Handle is the CUdeviceptr of b, valid until Free; 0 when b is empty.
func (be *Backend) Handle(b *Buffer) (backend.Handle, error) {
	if err := be.dev.BeginBuffer("handle", b); err != nil {
		return backend.Handle{}, err
	}
	defer be.dev.End()
	return backend.Handle{Addr: uintptr(b.Place().At)}, nil
}
