//go:build linux && cgo && !nocuda

package driver

// #include "driver.h"
// #cgo noescape fkv_launch
// #cgo nocallback fkv_launch
import "C"

import "unsafe"

// Limits of a Launch.
const (
	MaxBuffers = C.FKV_LAUNCH_BUFFERS
	MaxArgs    = C.FKV_LAUNCH_ARGS // bytes
	MaxMaps    = C.FKV_LAUNCH_MAPS
)

// Map describes rows of a buffer to the device's copy engine (CUtensorMap).
type Map [C.FKV_MAP_BYTES]byte

// Launch is one launch of a kernel that takes Count addresses of device memory, then, where Size is not 0, a struct
// of Size bytes, and where Mapped is not 0 one of that many Maps. C reads it where it lies
// and builds the kernel's parameters from it, so a launch allocates nothing; the
// driver has copied it when the call returns. It is large: keep one and reuse it.
type Launch struct {
	Func    Function
	Stream  Stream
	Grid    [3]uint32 // blocks
	Block   uint32    // threads of a block
	Shared  uint32    // bytes of dynamic shared memory
	Count   uint32    // of Buffers
	Size    uint32    // of Args
	Mapped  uint32    // of Maps
	Buffers [MaxBuffers]Ptr
	Args    [MaxArgs]byte // 8-byte aligned
	Maps    [MaxMaps]Map
}

// C sees the struct as it is here; anything else does not compile.
const (
	_ = -(unsafe.Sizeof(Launch{}) ^ C.sizeof_struct_fkv_launch)
	_ = -(unsafe.Offsetof(Launch{}.Stream) ^ unsafe.Offsetof(C.struct_fkv_launch{}.stream))
	_ = -(unsafe.Offsetof(Launch{}.Grid) ^ unsafe.Offsetof(C.struct_fkv_launch{}.grid))
	_ = -(unsafe.Offsetof(Launch{}.Block) ^ unsafe.Offsetof(C.struct_fkv_launch{}.block))
	_ = -(unsafe.Offsetof(Launch{}.Shared) ^ unsafe.Offsetof(C.struct_fkv_launch{}.shared))
	_ = -(unsafe.Offsetof(Launch{}.Count) ^ unsafe.Offsetof(C.struct_fkv_launch{}.count))
	_ = -(unsafe.Offsetof(Launch{}.Size) ^ unsafe.Offsetof(C.struct_fkv_launch{}.size))
	_ = -(unsafe.Offsetof(Launch{}.Buffers) ^ unsafe.Offsetof(C.struct_fkv_launch{}.buffers))
	_ = -(unsafe.Offsetof(Launch{}.Args) ^ unsafe.Offsetof(C.struct_fkv_launch{}.args))
	_ = -(unsafe.Offsetof(Launch{}.Maps) ^ unsafe.Offsetof(C.struct_fkv_launch{}.maps))
)

// EncodeMap describes rows of width elements of 16 bits, f16 or bf16, that begin at ptr, in boxes of 64 elements of 16 rows.
func (c *Context) EncodeMap(ptr Ptr, rows uint64, width uint32, bf16 bool) (m Map, err error) {
	kind := C.int32_t(0)
	if bf16 {
		kind = 1
	}
	err = c.check(C.fkv_map_encode(c.c, C.uint64_t(ptr), C.uint64_t(rows), C.uint32_t(width), kind, (*C.uchar)(unsafe.Pointer(&m))))
	return m, err
}

// Launch enqueues a launch on l.Stream. A refused one has done nothing.
func (c *Context) Launch(l *Launch) error {
	return c.check(C.fkv_launch(c.c, (*C.struct_fkv_launch)(unsafe.Pointer(l)), 1))
}

// LaunchAll is Launch for one after another, with one call from Go to C and one change of
// the thread's context. None is tried after one that was refused.
func (c *Context) LaunchAll(launches []Launch) error {
	if len(launches) == 0 {
		return nil
	}
	return c.check(C.fkv_launch(c.c, (*C.struct_fkv_launch)(unsafe.Pointer(unsafe.SliceData(launches))), C.size_t(len(launches))))
}
