//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #include "mtl.h"
// #cgo noescape mtl_launch
// #cgo nocallback mtl_launch
import "C"

import "unsafe"

// Limits of a Launch.
const (
	MaxBuffers = C.MTL_LAUNCH_BUFFERS
	MaxArgs    = C.MTL_LAUNCH_ARGS // bytes
)

// Launch is one launch of a kernel that takes Count buffers and then, at the index after
// them, a struct of Size bytes where that is not 0. C reads it where it lies, so a launch
// allocates nothing; Metal has copied it when the call returns. It is large: keep one
// and reuse it.
type Launch struct {
	Pipeline uintptr
	Grid     [3]uint32           // threadgroups
	Threads  uint32              // of a threadgroup
	Count    uint32              // of Buffers
	Size     uint32              // of Args
	Buffers  [MaxBuffers]uintptr // id<MTLBuffer>; 0 where the kernel has none
	Offsets  [MaxBuffers]uint64  // bytes, inside of the buffer
	Args     [MaxArgs]byte       // 8-byte aligned
}

// C sees the struct as it is here; anything else does not compile.
const (
	_ = -(unsafe.Sizeof(Launch{}) ^ C.sizeof_struct_mtl_launch)
	_ = -(unsafe.Offsetof(Launch{}.Grid) ^ unsafe.Offsetof(C.struct_mtl_launch{}.grid))
	_ = -(unsafe.Offsetof(Launch{}.Threads) ^ unsafe.Offsetof(C.struct_mtl_launch{}.threads))
	_ = -(unsafe.Offsetof(Launch{}.Count) ^ unsafe.Offsetof(C.struct_mtl_launch{}.count))
	_ = -(unsafe.Offsetof(Launch{}.Size) ^ unsafe.Offsetof(C.struct_mtl_launch{}.size))
	_ = -(unsafe.Offsetof(Launch{}.Buffers) ^ unsafe.Offsetof(C.struct_mtl_launch{}.buffers))
	_ = -(unsafe.Offsetof(Launch{}.Offsets) ^ unsafe.Offsetof(C.struct_mtl_launch{}.offsets))
	_ = -(unsafe.Offsetof(Launch{}.Args) ^ unsafe.Offsetof(C.struct_mtl_launch{}.args))
)

// Launch encodes a launch, which begins when those before it in this queue are over, as far
// as they use the same buffers. A refused one has done nothing. Between command buffers that
// order rests on Metal's tracking of hazards, which a buffer of a heap may lack, or on Order:
// https://developer.apple.com/documentation/metal/mtlresource/hazardtrackingmode
func (q *Queue) Launch(l *Launch) error {
	if err := check(C.mtl_launch(q.c, (*C.struct_mtl_launch)(unsafe.Pointer(l)))); err != nil {
		return err
	}
	q.pending++
	return nil
}
