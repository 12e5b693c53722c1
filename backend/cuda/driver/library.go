//go:build linux && cgo && !nocuda

package driver

// #cgo CFLAGS: -std=gnu99
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "driver.h"
// #cgo noescape fkv_open
// #cgo nocallback fkv_open
// #cgo noescape fkv_init
// #cgo nocallback fkv_init
// #cgo noescape fkv_device_get
// #cgo nocallback fkv_device_get
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// minVersion is CUDA 12.0: the kernels' machine code is of a compiler of CUDA 12, and NVIDIA promises that
// it loads from there on.
const minVersion = 12000

// needed is minVersion in words.
const needed = "need CUDA 12.0 (driver 525) or newer"

// Library is an initialised driver library. It is never unloaded. It is safe for
// concurrent use.
type Library struct {
	Path string // as it was opened

	handle  C.uintptr_t
	version int
	devices int
}

// Open loads the driver library of that path, or of that name from the system's
// library path, and initialises it. ErrUnavailable says what is missing.
func Open(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var why [512]C.char
	l := &Library{Path: path, handle: C.fkv_open(name, &why[0], C.size_t(len(why)))}
	if l.handle == 0 {
		return nil, unavailableError(missing(path, C.GoString(&why[0])))
	}
	var version, devices C.int32_t
	err := check(l.handle, C.fkv_init(l.handle, &version, &devices))
	l.version, l.devices = int(version), int(devices)
	switch {
	case l.version > 0 && l.version < minVersion:
		return nil, unavailableError(fmt.Sprintf("driver too old: it is for CUDA %s, %s", l.VersionString(), needed))
	case err != nil:
		return nil, err
	}
	return l, nil
}

func unavailableError(why string) error { return backend.ErrUnavailable{Backend: "cuda", Why: why} }

// missing puts the loader's reason into words.
func missing(path, why string) string {
	if strings.Contains(why, "No such file") {
		return path + " not found; it comes with the NVIDIA driver"
	}
	if strings.HasPrefix(why, "it has no") {
		return fmt.Sprintf("driver too old: %s %s, %s", path, strings.TrimPrefix(why, "it "), needed)
	}
	return "cannot open " + path + ": " + why
}

// Version is the newest CUDA version that the driver supports, 1000·major + 10·minor.
func (l *Library) Version() int { return l.version }

// VersionString is Version as people write it: "12.4".
func (l *Library) VersionString() string {
	return fmt.Sprintf("%d.%d", l.version/1000, l.version%1000/10)
}

// Len is the number of devices that the process may use (CUDA_VISIBLE_DEVICES).
func (l *Library) Len() int { return l.devices }

// Device describes a device.
type Device struct {
	Ordinal      int // in the driver's order
	Name         string
	Bus          string // PCI bus id: "0000:3b:00.0"
	Memory       int64  // bytes
	Major, Minor int    // compute capability
	Units        int    // multiprocessors
	MaxShared    int    // bytes of shared memory that a block can have
	Pools        bool   // stream-ordered memory pools are there
}

// Device describes device i of Len.
func (l *Library) Device(i int) (Device, error) {
	var d C.struct_fkv_device
	if err := check(l.handle, C.fkv_device_get(l.handle, C.int32_t(i), &d)); err != nil {
		return Device{}, err
	}
	return Device{Ordinal: i, Name: C.GoString(&d.name[0]), Bus: C.GoString(&d.bus[0]), Memory: int64(d.memory),
		Major: int(d.major), Minor: int(d.minor), Units: int(d.units), MaxShared: int(d.shared), Pools: d.pools != 0}, nil
}
