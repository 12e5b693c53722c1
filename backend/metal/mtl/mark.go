//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #include "mtl.h"
// #cgo noescape mtl_mark_done
// #cgo nocallback mtl_mark_done
// #cgo nocallback mtl_mark_wait
import "C"

// Mark is the end of a committed command buffer: that, and the value that its queue's
// shared event has from then on, both retained. The zero Mark is of no work and done. A
// mark may outlive its queue, and is safe for concurrent use, except Release.
//
// A command buffer that failed raises the event all the same, so that no other queue hangs.
type Mark struct {
	command, event uintptr // id<MTLCommandBuffer>, id<MTLSharedEvent>
	value          uint64
}

// Retain returns the mark with another reference.
func (m Mark) Retain() Mark {
	C.mtl_retain(C.uintptr_t(m.command))
	C.mtl_retain(C.uintptr_t(m.event))
	return m
}

// Release gives a reference back.
func (m Mark) Release() {
	C.mtl_release(C.uintptr_t(m.command))
	C.mtl_release(C.uintptr_t(m.event))
}

// Done reports whether the command buffer has completed. The error is its failure.
func (m Mark) Done() (bool, error) {
	if m.command == 0 {
		return true, nil
	}
	var done C.int32_t
	err := check(C.mtl_mark_done(m.c(), &done))
	return done != 0, err
}

// Wait waits until the command buffer is over. The error is its failure.
func (m Mark) Wait() error {
	if m.command == 0 {
		return nil
	}
	return check(C.mtl_mark_wait(m.c()))
}

func (m Mark) c() C.struct_mtl_mark {
	return C.struct_mtl_mark{command: C.uintptr_t(m.command), event: C.uintptr_t(m.event), value: C.uint64_t(m.value)}
}
