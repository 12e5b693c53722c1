//go:build linux && cgo && !nocuda

package cuda

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
)

// Buffer is memory of one Backend's device.
type Buffer struct {
	be       *Backend
	dt       backend.DType
	n        int
	size     int
	ptr      driver.Ptr // 0 when empty
	freed    bool       // guarded by be.mu
	imported bool
}

// Len is the number of elements.
func (b *Buffer) Len() int {
	if b == nil {
		return 0
	}
	return b.n
}

// DType is the storage type of an element; Invalid of a nil buffer.
func (b *Buffer) DType() backend.DType {
	if b == nil {
		return backend.Invalid
	}
	return b.dt
}

// Bytes is the storage of all elements.
func (b *Buffer) Bytes() int64 {
	if b == nil {
		return 0
	}
	return int64(b.size)
}

// Alloc returns n uninitialised elements, aligned to 256 bytes, for work on any
// stream. It waits for work on the device only when there is too little memory, to
// get what was freed. ErrOutOfMemory when that is not enough; ErrShape when the
// type is invalid, n is negative or the size overflows.
func (be *Backend) Alloc(dt backend.DType, n int) (*Buffer, error) {
	size, err := check.Size("alloc", dt, n)
	if err != nil {
		return nil, err
	}
	be.life.Lock()
	defer be.life.Unlock()
	if err := be.alive("alloc"); err != nil {
		return nil, err
	}
	if all := be.ctx.Device.Memory; int64(size) > all {
		return nil, fmt.Errorf("%s: alloc: %d bytes of %d: %w", be.name, size, all, backend.ErrOutOfMemory)
	}
	b := &Buffer{be: be, dt: dt, n: n, size: size}
	if size > 0 {
		if b.ptr, err = be.memory.obtain(size); err != nil {
			return nil, be.failed("alloc", fmt.Errorf("%d bytes: %w", size, err))
		}
	}
	be.mu.Lock()
	defer be.mu.Unlock()
	be.allocated += int64(size)
	be.buffers[b] = struct{}{}
	return b, nil
}

// Free returns the memory once the work that was enqueued before on any of this
// Backend's streams is done, without waiting for it (a device without memory pools
// waits). An imported buffer's memory is only forgotten.
func (be *Backend) Free(b *Buffer) error {
	be.life.Lock()
	defer be.life.Unlock()
	if err := be.forget(b); err != nil {
		return err
	}
	if b.ptr == 0 || b.imported {
		return nil
	}
	return be.failed("free", be.memory.release(b.ptr))
}

// forget makes b unusable, and its release wait for the work that may use it.
func (be *Backend) forget(b *Buffer) error {
	be.mu.Lock()
	defer be.mu.Unlock()
	if err := be.open("free"); err != nil {
		return err
	}
	if err := be.owns("free", "buffer", b); err != nil {
		return err
	}
	if b.ptr != 0 && !b.imported {
		for s := range be.streams {
			err := be.ctx.Record(s.tail, s.cu)
			if err == nil {
				err = be.memory.after(s.tail)
			}
			if err != nil {
				return be.failed("free", err)
			}
		}
	}
	b.freed = true
	delete(be.buffers, b)
	if !b.imported {
		be.allocated -= int64(b.size)
	}
	return nil
}

// Import wraps memory of this device, h.Addr a CUdeviceptr, without a copy. ErrShape
// when it is not device memory, too short or not aligned to an element, ErrForeign
// when it is another device's or another context's.
func (be *Backend) Import(h backend.Handle, dt backend.DType, n int) (*Buffer, error) {
	size, err := check.Size("import", dt, n)
	if err != nil {
		return nil, err
	}
	be.mu.Lock()
	defer be.mu.Unlock()
	if err := be.open("import"); err != nil {
		return nil, err
	}
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
	b := &Buffer{be: be, dt: dt, n: n, size: size, ptr: driver.Ptr(h.Addr), imported: true}
	be.buffers[b] = struct{}{}
	return b, nil
}

// reaches reports whether size bytes from p on are memory of the device; the
// caller holds mu.
func (be *Backend) reaches(p driver.Ptr, size int) error {
	at, err := be.ctx.Describe(p)
	if err := be.failed("import", err); be.lost.Load() {
		return err
	}
	switch end := at.Start + driver.Ptr(at.Size); {
	case err != nil || !at.OnDevice:
		return importError("handle: %#x is no device memory", p)
	case at.Ordinal != be.ctx.Device.Ordinal || at.Foreign:
		return fmt.Errorf("%s: import: memory %w", be.name, backend.ErrForeign)
	case at.Size != 0 && (p < at.Start || p >= end || uint64(size) > uint64(end-p)):
		return importError("handle: %#x has %d bytes, need %d", p, uint64(end-p), size)
	}
	return nil
}

func importError(format string, args ...any) error {
	return backend.ErrShape{Op: "import", What: fmt.Sprintf(format, args...)}
}

// Handle is the memory of b as a CUdeviceptr, valid until Free; 0 when b is empty.
func (be *Backend) Handle(b *Buffer) (backend.Handle, error) {
	be.mu.RLock()
	defer be.mu.RUnlock()
	if err := be.open("handle"); err != nil {
		return backend.Handle{}, err
	}
	if err := be.owns("handle", "buffer", b); err != nil {
		return backend.Handle{}, err
	}
	return backend.Handle{Addr: uintptr(b.ptr)}, nil
}

// owns reports whether b is a live buffer of be; the caller holds mu.
func (be *Backend) owns(op, name string, b *Buffer) error {
	switch {
	case b == nil:
		return backend.ErrShape{Op: op, What: name + ": holds no buffer"}
	case b.be != be:
		return fmt.Errorf("%s: %s: %s %w", be.name, op, name, backend.ErrForeign)
	case b.freed:
		return fmt.Errorf("%s: %s: %s: %w", be.name, op, name, backend.ErrFreed)
	}
	return nil
}
