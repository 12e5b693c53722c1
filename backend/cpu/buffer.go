package cpu

import (
	"fmt"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/internal/bytesize"
	"github.com/ferrumkv/ferrumkv/internal/hostmemory"
)

// Buffer is host memory of one Backend.
type Buffer struct {
	be       *Backend
	dt       backend.DType
	n        int
	size     int
	mem      []byte // nil when freed or empty; guarded by be.mu
	freed    bool   // guarded by be.mu
	imported bool
	parent   *Buffer // of a sub-buffer; else nil
	subs     int     // live sub-buffers; guarded by be.mu
	history          // of memory that is no other buffer's
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

// view is the memory of b as host numbers; elements of dt and T have one size.
func view[T backend.Number](b *Buffer) []T { return of[T](b.mem) }

// of is stored memory as host numbers.
func of[T backend.Number](mem []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/int(unsafe.Sizeof(zero)))
}

// Alloc returns n uninitialised elements, aligned to 64 bytes. ErrOutOfMemory when they exceed the
// rest of the budget or the system has no memory; ErrArgument when the type is invalid, n is negative
// or the size overflows.
func (be *Backend) Alloc(dt backend.DType, n int) (*Buffer, error) {
	size, err := check.Size("alloc", dt, n)
	if err != nil {
		return nil, err
	}
	be.mu.Lock()
	defer be.mu.Unlock()
	if err := be.open("alloc"); err != nil {
		return nil, err
	}
	if int64(size) > be.maxBytes-be.allocated {
		return nil, fmt.Errorf("cpu: %w", backend.ErrOutOfMemory{Op: "alloc", Bytes: int64(size), Max: be.maxBytes - be.allocated})
	}
	b := &Buffer{be: be, dt: dt, n: n, size: size}
	if size > 0 {
		if b.mem, err = hostmemory.Obtain(size); err != nil {
			return nil, fmt.Errorf("cpu: alloc: %s requested: %w: %w", bytesize.String(int64(size)), backend.ErrOutOfMemory{}, err)
		}
	}
	be.allocated += int64(size)
	be.buffers[b] = struct{}{}
	return b, nil
}

// Free returns the memory to the system after running operations, and frees the buffer's
// sub-buffers. Imported memory, and that of a sub-buffer, is left as it is.
func (be *Backend) Free(b *Buffer) error {
	be.mu.Lock()
	defer be.mu.Unlock()
	if err := be.open("free"); err != nil {
		return err
	}
	if err := be.owns("free", "buffer", b); err != nil {
		return err
	}
	return be.release(b)
}

// release forgets a live buffer; the caller holds mu.
func (be *Backend) release(b *Buffer) error {
	mem := b.mem
	b.mem, b.freed = nil, true
	be.known.Forget()
	be.verdicts.forget()
	delete(be.buffers, b)
	if b.subs > 0 {
		for sub := range be.buffers {
			if sub.parent == b {
				_ = be.release(sub) // gives nothing back
			}
		}
	}
	if b.parent != nil {
		b.parent.subs--
		return nil
	}
	if b.imported {
		return nil
	}
	be.allocated -= int64(b.size)
	if len(mem) == 0 {
		return nil
	}
	if err := hostmemory.Discard(mem); err != nil {
		return fmt.Errorf("cpu: free: %w", err)
	}
	return nil
}

// Import makes a buffer of a host slice, h.Host, without a copy. ErrArgument when it is not aligned to
// an element or has fewer than n of them.
func (be *Backend) Import(h backend.Handle, dt backend.DType, n int) (*Buffer, error) {
	size, err := check.Size("import", dt, n)
	if err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) (*Buffer, error) {
		return nil, backend.ErrArgument{Op: "import", What: fmt.Sprintf(format, args...)}
	}
	if h.Addr != 0 || h.Offset != 0 {
		return bad("handle: has an address, the cpu needs a host slice")
	}
	if len(h.Host) < size {
		return bad("handle: %d bytes, need %d for %d elements of %s", len(h.Host), size, n, dt)
	}
	align := uintptr(max(dt.Bits()/8, 1))
	if size > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(h.Host)))%align != 0 {
		return bad("handle: memory is not aligned to the %d bytes of %s", align, dt)
	}
	be.mu.Lock()
	defer be.mu.Unlock()
	if err := be.open("import"); err != nil {
		return nil, err
	}
	b := &Buffer{be: be, dt: dt, n: n, size: size, mem: h.Host[:size:size], imported: true}
	b.expose()
	be.buffers[b] = struct{}{}
	return b, nil
}

// SubBuffer returns n elements of dt in the memory of b, from byte offset on, which is aligned to
// an element (ErrArgument). Freeing b frees it, too.
func (be *Backend) SubBuffer(b *Buffer, offset int64, dt backend.DType, n int) (*Buffer, error) {
	const op = "sub-buffer"
	be.mu.Lock()
	defer be.mu.Unlock()
	if err := be.open(op); err != nil {
		return nil, err
	}
	if err := be.owns(op, "buffer", b); err != nil {
		return nil, err
	}
	size, err := check.SubBuffer(b, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b.mem)))), offset, dt, n)
	if err != nil {
		return nil, err
	}
	sub := &Buffer{be: be, dt: dt, n: n, size: size, mem: b.mem[offset:][:size:size], parent: b}
	if !indexType(b.dt) || !indexType(dt) {
		sub.expose() // it can be what operations write
	}
	b.subs++
	be.buffers[sub] = struct{}{}
	return sub, nil
}

// Handle is the memory of b as a host slice, valid until Free.
func (be *Backend) Handle(b *Buffer) (backend.Handle, error) {
	mem, err := be.hostBytes("handle", b)
	return backend.Handle{Host: mem}, err
}

// HostBytes is the memory of b, valid until Free.
func (be *Backend) HostBytes(b *Buffer) ([]byte, error) { return be.hostBytes("host bytes", b) }

func (be *Backend) hostBytes(op string, b *Buffer) ([]byte, error) {
	be.mu.RLock()
	defer be.mu.RUnlock()
	if err := be.open(op); err != nil {
		return nil, err
	}
	if err := be.owns(op, "buffer", b); err != nil {
		return nil, err
	}
	b.expose()
	return b.mem, nil
}

// owns reports whether b is a live buffer of be; the caller holds mu.
func (be *Backend) owns(op, name string, b *Buffer) error {
	switch {
	case b == nil:
		return backend.ErrArgument{Op: op, What: name + ": holds no buffer"}
	case b.be != be:
		return fmt.Errorf("cpu: %s: %s %w", op, name, backend.ErrOtherDevice)
	case b.freed:
		return fmt.Errorf("cpu: %s: %s: %w", op, name, backend.ErrFreed)
	}
	return nil
}
