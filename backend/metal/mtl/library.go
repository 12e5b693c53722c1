//go:build cgo && !nometal && (darwin || metalsimt)

package mtl

// #include "mtl.h"
// #cgo noescape mtl_library_compile
// #cgo nocallback mtl_library_compile
// #cgo noescape mtl_library_load
// #cgo nocallback mtl_library_load
import "C"

import (
	"errors"
	"unsafe"
)

// Library is kernels for a device, an id<MTLLibrary>.
type Library uintptr

// NewLibrary compiles source as version 3.0 of the Metal Shading Language, which needs macOS
// 13, or as 3.1 where it uses bfloat, which needs Info.BFloat. Infinities and NaNs keep
// their meaning. A compiler's error is an Error with all it had to say.
func (d *Device) NewLibrary(source string, bfloat bool) (Library, error) {
	var l C.uintptr_t
	var version C.int32_t
	if bfloat {
		version = 1
	}
	err := check(C.mtl_library_compile(d.id(), text(source), C.size_t(len(source)), version, &l))
	return Library(l), err
}

// LoadLibrary loads a metallib, of which Metal makes a copy.
func (d *Device) LoadLibrary(data []byte) (Library, error) {
	if len(data) == 0 {
		return 0, errors.New("mtl: an empty metallib")
	}
	var l C.uintptr_t
	err := check(C.mtl_library_load(d.id(), unsafe.Pointer(unsafe.SliceData(data)), C.size_t(len(data)), &l))
	return Library(l), err
}

// Release gives the library back. Its pipelines stay.
func (l Library) Release() { C.mtl_release(C.uintptr_t(l)) }

// text lends C the bytes of a string for a call.
func text(s string) *C.char { return (*C.char)(unsafe.Pointer(unsafe.StringData(s))) }
