package device

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// Buffer is embedded in a driver's buffers: elements of one type somewhere in the
// device's memory. A nil *Buffer has no elements.
type Buffer struct {
	owner    any // the Device
	dt       backend.DType
	n        int
	size     int
	place    launch.Place // none when empty
	freed    bool         // guarded by the Device
	imported bool
	parent   *Buffer // of a sub-buffer; else nil
	subs     int     // live sub-buffers; guarded by the Device
}

// NewBuffer returns n elements, size bytes, at a place. Imported memory is the caller's.
func NewBuffer(dt backend.DType, n, size int, place launch.Place, imported bool) Buffer {
	return Buffer{dt: dt, n: n, size: size, place: place, imported: imported}
}

// NewSubBuffer returns n elements, size bytes, from a byte of parent's memory on.
func NewSubBuffer(parent *Buffer, offset int64, dt backend.DType, n, size int) Buffer {
	b := Buffer{dt: dt, n: n, size: size, parent: parent}
	if size > 0 {
		b.place = launch.Place{Memory: parent.place.Memory, At: parent.place.At + uint64(offset)}
	}
	return b
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

// Place is where the memory starts; none when the buffer is empty.
func (b *Buffer) Place() launch.Place { return b.place }

// Owned reports whether there is memory that the buffer's Device gives back.
func (b *Buffer) Owned() bool { return b.place != launch.Place{} && !b.imported && b.parent == nil }

// Part reports whether the memory is that of another buffer.
func (b *Buffer) Part() bool { return b.parent != nil }

func (b *Buffer) common() *Buffer { return b }

// buffer is a pointer to a struct that embeds Buffer.
type buffer interface {
	comparable
	launch.Buffer
	common() *Buffer
}

// AddBuffer makes b a buffer of the device; the caller holds Lock.
func (d *Device[B, S, E, R]) AddBuffer(b B) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := b.common()
	own.owner = d
	d.buffers[b] = struct{}{}
	switch {
	case own.parent != nil:
		own.parent.subs++
	case !own.imported:
		d.allocated += int64(own.size)
	}
}

// Owns reports whether b is a live buffer of the device; the caller has begun an
// operation.
func (d *Device[B, S, E, R]) Owns(op, name string, b B) error {
	var none B
	switch {
	case b == none:
		return backend.ErrArgument{Op: op, What: name + ": holds no buffer"}
	case b.common().owner != any(d):
		return fmt.Errorf("%s: %s: %s %w", d.name, op, name, backend.ErrOtherDevice)
	case b.common().freed:
		return fmt.Errorf("%s: %s: %s: %w", d.name, op, name, backend.ErrFreed)
	}
	return nil
}

// BeginBuffer is Begin for what needs a buffer and no stream.
func (d *Device[B, S, E, R]) BeginBuffer(op string, b B) error {
	err := d.Use(op)
	if err != nil {
		return err
	}
	if err = d.Owns(op, "buffer", b); err != nil {
		d.End()
	}
	return err
}

// LockedBuffer reports whether b is a live buffer of the device; the caller holds Lock, so that it
// stays one.
func (d *Device[B, S, E, R]) LockedBuffer(op string, b B) error {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.Owns(op, "buffer", b)
}

// Forget makes b and its sub-buffers unusable, before its memory is given back; the caller holds Lock. Where
// the driver's memory does not by itself outlive the work that uses it, after tells it
// for each stream to wait for what is enqueued there; nil elsewhere. b stays usable
// when that fails.
func (d *Device[B, S, E, R]) Forget(b B, after func(s S) error) error {
	const op = "free"
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(op); err != nil {
		return err
	}
	if err := d.Owns(op, "buffer", b); err != nil {
		return err
	}
	own := b.common()
	if after != nil && own.Owned() {
		for s := range d.streams.live {
			if err := after(s); err != nil {
				return d.Failed(op, err)
			}
		}
	}
	d.known.Forget()
	d.end(b)
	return nil
}

// end is Forget of a live buffer and of those that share its memory.
func (d *Device[B, S, E, R]) end(b B) {
	own := b.common()
	own.freed = true
	delete(d.buffers, b)
	d.forget(b)
	if own.subs > 0 {
		for sub := range d.buffers {
			if sub.common().parent == own {
				d.end(sub)
			}
		}
	}
	switch {
	case own.parent != nil:
		own.parent.subs--
	case !own.imported:
		d.allocated -= int64(own.size)
	}
}
