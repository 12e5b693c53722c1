//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #include "mtl.h"
// #cgo noescape mtl_buffer_make
// #cgo nocallback mtl_buffer_make
// #cgo noescape mtl_buffer_describe
// #cgo nocallback mtl_buffer_describe
import "C"

import "unsafe"

// Buffer is an id<MTLBuffer>. Memory returns to the system when nobody has the buffer and
// no command buffer that uses it is unfinished.
type Buffer uintptr

// NewBuffer returns memory that the host and the device share, of size bytes, which is not
// 0; it holds anything. ErrOutOfMemory if there is none. That a buffer was given does not
// mean that it fits: Metal takes more than the working set, and then the system pages.
func (d *Device) NewBuffer(size int) (Buffer, error) {
	var b C.uintptr_t
	err := check(C.mtl_buffer_make(d.id(), C.uint64_t(size), &b))
	return Buffer(b), err
}

// Retain takes another reference.
func (b Buffer) Retain() { C.mtl_retain(C.uintptr_t(b)) }

// Release gives a reference back.
func (b Buffer) Release() { C.mtl_release(C.uintptr_t(b)) }

// BufferInfo is what a buffer says of itself.
type BufferInfo struct {
	Registry  uint64         // of its device; 0: it is an object of another kind, and the rest means nothing
	Untracked bool           // Metal does not order its uses: a heap's, or made so
	Length    int64          // bytes
	Contents  unsafe.Pointer // as the host sees them; nil unless the storage is shared
}

// Describe asks a buffer.
func (b Buffer) Describe() BufferInfo {
	var out C.struct_mtl_buffer_info
	C.mtl_buffer_describe(C.uintptr_t(b), &out)
	return BufferInfo{Registry: uint64(out.registry), Untracked: out.untracked != 0, Length: int64(out.length), Contents: out.contents}
}
