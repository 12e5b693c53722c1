//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #cgo CFLAGS: -fblocks -fno-objc-arc
// #include "mtl.h"
// #cgo noescape mtl_devices
// #cgo nocallback mtl_devices
// #cgo noescape mtl_device_describe
// #cgo nocallback mtl_device_describe
// #cgo nocallback mtl_device_allocated
// #cgo nocallback mtl_retain
// #cgo nocallback mtl_release
import "C"

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Device is an id<MTLDevice>, retained. Its methods are safe for concurrent use, except
// Release.
type Device struct {
	ID   uintptr
	Info Info
}

// Info is what a device and its system can do.
type Info struct {
	Name       string
	Registry   uint64 // registryID, the same for every object that stands for the device
	OS         string // version of macOS: "14.5"
	Major      int    // of OS
	WorkingSet int64  // bytes that the device can use without becoming slow, or worse: recommendedMaxWorkingSetSize
	MaxBuffer  int64  // bytes of the largest buffer
	Cores      int    // of the GPU; 0: unknown
	Apple7     bool   // Apple's GPUs from the M1 on: SIMD groups of 32, matrices of a SIMD group
	Metal3     bool   // atomic floats, among others
	Unified    bool   // host and device share their memory
	BFloat     bool   // the language has bfloat, and the device runs it
}

// maxDevices is more than a machine has.
const maxDevices = 64

// Devices lists the system's devices in its own order, or the default one where the list is
// empty; the caller releases each. No device is ErrUnavailable, which a virtual machine may
// well have, and so are all after a command buffer has failed because the system revoked the
// process's access.
func Devices() ([]*Device, error) {
	if revoked.Load() {
		return nil, errRevoked
	}
	var ids [maxDevices]C.uintptr_t
	n := int(C.mtl_devices(&ids[0], maxDevices))
	if n == 0 {
		return nil, backend.ErrUnavailable{Backend: "metal", Why: "the system lists no Metal device"}
	}
	devices := make([]*Device, n)
	for i, id := range ids[:n] {
		devices[i] = &Device{ID: uintptr(id), Info: describe(id)}
	}
	return devices, nil
}

// describe asks a device. Version 3.1 of the language, the first with bfloat, came with
// macOS 14: https://developer.apple.com/documentation/metal/mtllanguageversion
func describe(id C.uintptr_t) Info {
	var d C.struct_mtl_device_info
	C.mtl_device_describe(id, &d)
	return Info{
		Name: C.GoString(&d.name[0]), Registry: uint64(d.registry), OS: fmt.Sprintf("%d.%d", d.major, d.minor), Major: int(d.major),
		WorkingSet: int64(d.working_set), MaxBuffer: int64(d.max_buffer), Cores: int(d.cores),
		Apple7: d.apple7 != 0, Metal3: d.metal3 != 0, Unified: d.unified != 0,
		BFloat: d.major >= 14 && d.metal3 != 0,
	}
}

// Allocated is the memory in bytes that this whole process has on the device.
func (d *Device) Allocated() int64 { return int64(C.mtl_device_allocated(d.id())) }

// Release gives the device back. Its buffers and queues keep it for themselves.
func (d *Device) Release() {
	C.mtl_release(d.id())
	d.ID = 0
}

func (d *Device) id() C.uintptr_t { return C.uintptr_t(d.ID) }
