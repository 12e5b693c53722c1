//go:build linux && cgo && metalsimt && !nometal

package metalsimt

// #cgo CFLAGS: -fblocks -fno-objc-arc
// #include "private.h"
import "C"

// PrivateBuffer is an MTLBuffer of a device that the host does not see, as a model runner
// may have; 0 where there is no memory. The caller releases it.
func PrivateBuffer(device uintptr, size int) uintptr {
	return uintptr(C.fkv_metal_private_buffer(C.uintptr_t(device), C.size_t(size)))
}

// UntrackedBuffer is one whose uses Metal does not order, otherwise alike.
func UntrackedBuffer(device uintptr, size int) uintptr {
	return uintptr(C.fkv_metal_untracked_buffer(C.uintptr_t(device), C.size_t(size)))
}
