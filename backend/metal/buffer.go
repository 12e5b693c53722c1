//go:build cgo && !nometal && (darwin || metalsimt)

package metal

import (
	"fmt"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/check"
	"github.com/ferrumkv/ferrumkv/backend/internal/device"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
	"github.com/ferrumkv/ferrumkv/backend/metal/mtl"
)

// Buffer is memory of one Backend's device.
type Buffer struct {
	memoryOf
	memory    mtl.Buffer // one reference, of a sub-buffer none; 0 when empty
	host      []byte     // the same bytes, until it is freed; nil when empty, or private to the GPU
	untracked bool       // imported, and Metal does not order its uses
}

// memoryOf has a name that users of Buffer do not see.
type memoryOf = device.Buffer

// own is what the methods of a nil buffer can be called on.
func (b *Buffer) own() *device.Buffer {
	if b == nil {
		return nil
	}
	return &b.memoryOf
}

// Len is the number of elements.
func (b *Buffer) Len() int { return b.own().Len() }

// DType is the storage type of an element; Invalid of a nil buffer.
func (b *Buffer) DType() backend.DType { return b.own().DType() }

// Bytes is the storage of all elements.
func (b *Buffer) Bytes() int64 { return b.own().Bytes() }

// Alloc returns n uninitialised elements, aligned to a page, which all streams can use. Only when
// there is too little memory it waits for work on the device, to reuse freed memory. ErrOutOfMemory,
// which says how much is left, when that is not enough; ErrArgument when the type is invalid, n is
// negative or the size overflows.
func (be *Backend) Alloc(dt backend.DType, n int) (*Buffer, error) {
	size, err := check.Size("alloc", dt, n)
	if err != nil {
		return nil, err
	}
	if err := be.dev.Lock("alloc"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	b := &Buffer{}
	if size > 0 {
		if b.memory, err = be.obtain(size); err != nil {
			return nil, be.dev.Failed("alloc", err)
		}
		b.host = unsafe.Slice((*byte)(b.memory.Describe().Contents), size)
	}
	b.memoryOf = device.NewBuffer(dt, n, size, b.place(0), false)
	be.dev.AddBuffer(b)
	return b, nil
}

// place is bytes into the memory; none when there is none.
func (b *Buffer) place(offset int64) launch.Place {
	if b.memory == 0 {
		return launch.Place{}
	}
	return launch.Place{Memory: uintptr(b.memory), At: uint64(offset)}
}

// Free releases the memory and the buffer's sub-buffers; Metal keeps it for the work that was
// enqueued before. Imported memory, and that of a sub-buffer, is left as it is.
func (be *Backend) Free(b *Buffer) error {
	if err := be.dev.Lock("free"); err != nil {
		return err
	}
	defer be.dev.Unlock()
	if err := be.dev.Forget(b, nil); err != nil {
		return err
	}
	return be.release(b)
}

// release gives up the reference to a buffer's memory.
func (be *Backend) release(b *Buffer) error {
	if b.memory != 0 && !b.Part() {
		b.memory.Release()
		if b.Owned() {
			be.late.Add((b.Bytes() + page - 1) / page * page)
		}
	}
	return nil
}

// Import makes a buffer of an MTLBuffer of this device, h.Addr, from byte h.Offset on, without a
// copy. It is retained until Free. ErrArgument when it is too short or the offset is not aligned to an
// element, ErrOtherDevice when it belongs to another device, ErrUnsupported for a host slice, and without
// h.Untracked for a buffer whose hazards Metal does not track.
//
// Metal orders the uses of a tracked buffer by all queues of the process. Those of an untracked one, as MLX
// makes them, nobody orders: the caller says with h.Untracked that he does, with events in both directions.
// What he has committed comes before this library's work by Record on a stream of his queue and Wait on the one
// that works, which may be the same. What he commits next comes behind after Record there and Wait on the stream
// of his queue, if it waits, too: a wait holds back its own command buffer alone. So his begins with a signal of
// an event of his own, which comes after all that was committed to the queue, and a wait for that.
//
// This library's own uses of it on a stream are in order; from the first such import on, each of the stream's
// command buffers waits for the one before. Those of two streams are not, also if both are of one queue:
// Record and Wait.
func (be *Backend) Import(h backend.Handle, dt backend.DType, n int) (*Buffer, error) {
	size, err := check.Size("import", dt, n)
	if err != nil {
		return nil, err
	}
	if err := be.dev.Lock("import"); err != nil {
		return nil, err
	}
	defer be.dev.Unlock()
	b := &Buffer{}
	if size > 0 {
		if err := be.reach(b, h, dt, size); err != nil {
			return nil, err
		}
		b.memory.Retain()
	}
	b.memoryOf = device.NewBuffer(dt, n, size, b.place(h.Offset), true)
	be.dev.AddBuffer(b)
	return b, nil
}

// reach finds size bytes of the device's memory behind a handle.
func (be *Backend) reach(b *Buffer, h backend.Handle, dt backend.DType, size int) error {
	switch {
	case h.Host != nil:
		return backend.ErrUnsupported{Op: "import", Why: "a slice of the host's; allocate the buffer, and HostBytes is a slice of it"}
	case h.Addr == 0:
		return importError("handle: nothing, need an MTLBuffer")
	}
	if align := int64(max(dt.Bits()/8, 1)); h.Offset < 0 || h.Offset%align != 0 {
		return importError("handle: offset %d is negative or not aligned to the %d bytes of %s", h.Offset, align, dt)
	}
	memory := mtl.Buffer(h.Addr)
	info := memory.Describe()
	switch {
	case info.Registry == 0:
		return importError("handle: an object of another kind, need an MTLBuffer")
	case info.Untracked && !h.Untracked:
		return backend.ErrUnsupported{Op: "import", Why: "Metal does not track the hazards of this MTLBuffer, so nothing orders its uses; set Handle.Untracked and order them with Record and Wait, or make it with MTLResourceHazardTrackingModeTracked"}
	case info.Registry != be.gpu.Info.Registry:
		return fmt.Errorf("%s: import: memory %w", be.dev.Name(), backend.ErrOtherDevice)
	case h.Offset > info.Length || int64(size) > info.Length-h.Offset:
		return importError("handle: %d bytes from %d on, need %d", info.Length, h.Offset, size)
	}
	b.memory, b.untracked = memory, info.Untracked
	if info.Untracked {
		be.untracked.Store(true)
	}
	if info.Contents != nil {
		b.host = unsafe.Slice((*byte)(unsafe.Add(info.Contents, h.Offset)), size)
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
	sub := &Buffer{memoryOf: device.NewSubBuffer(b.own(), offset, dt, n, size)}
	if size > 0 {
		sub.memory, sub.untracked = b.memory, b.untracked
		if b.host != nil {
			sub.host = b.host[offset:][:size:size]
		}
	}
	be.dev.AddBuffer(sub)
	return sub, nil
}

// Handle is the MTLBuffer of b and the offset of b in it, valid until Free; empty when b is.
func (be *Backend) Handle(b *Buffer) (backend.Handle, error) {
	if err := be.dev.BeginBuffer("handle", b); err != nil {
		return backend.Handle{}, err
	}
	defer be.dev.End()
	return backend.Handle{Addr: uintptr(b.memory), Offset: int64(b.Place().At), Untracked: b.untracked}, nil
}

// HostBytes is the memory of b, valid until Free. The caller must synchronise its access with the
// streams that use b: what they have written is there after Sync. ErrUnsupported when b was
// imported and is private to the GPU.
func (be *Backend) HostBytes(b *Buffer) ([]byte, error) {
	if err := be.dev.BeginBuffer("host bytes", b); err != nil {
		return nil, err
	}
	defer be.dev.End()
	if b.host == nil && b.Bytes() > 0 {
		return nil, backend.ErrUnsupported{Op: "host bytes", Why: "the imported MTLBuffer has private storage"}
	}
	return b.host, nil
}
