//go:build linux && cgo && !nocuda

package driver

// #include <stdlib.h>
// #include "driver.h"
// #cgo noescape fkv_module_load
// #cgo nocallback fkv_module_load
// #cgo nocallback fkv_module_unload
// #cgo noescape fkv_module_function
// #cgo nocallback fkv_module_function
// #cgo nocallback fkv_function_shared
// #cgo noescape fkv_function_occupancy
// #cgo nocallback fkv_function_occupancy
import "C"

import (
	"errors"
	"unsafe"
)

// Module is compiled kernels on a device, a CUmodule.
type Module uintptr

// Function is a kernel of a module, a CUfunction. It lives as long as its module.
type Function uintptr

// LoadModule loads a fat binary or cubin; the driver copies it. An image that has
// code for no device like this one is an error.
func (c *Context) LoadModule(image []byte) (Module, error) {
	if len(image) == 0 {
		return 0, errors.New("driver: an empty module image")
	}
	var m C.uintptr_t
	err := c.check(C.fkv_module_load(c.c, unsafe.Pointer(unsafe.SliceData(image)), &m))
	return Module(m), err
}

// UnloadModule ends a module whose kernels do not run any more.
func (c *Context) UnloadModule(m Module) error {
	return c.check(C.fkv_module_unload(c.c, C.uintptr_t(m)))
}

// Function looks a kernel up by its symbol.
func (c *Context) Function(m Module, symbol string) (Function, error) {
	name := C.CString(symbol)
	defer C.free(unsafe.Pointer(name))
	var f C.uintptr_t
	err := c.check(C.fkv_module_function(c.c, C.uintptr_t(m), name, &f))
	return Function(f), err
}

// AllowShared lets launches of f have that many bytes of dynamic shared memory;
// more than 48 KiB need it. It also prefers shared memory over cache on the
// multiprocessors that run f, as a driver left to itself may not, so that as many
// blocks as possible run on each.
func (c *Context) AllowShared(f Function, size int) error {
	return c.check(C.fkv_function_shared(c.c, C.uintptr_t(f), C.int32_t(size)))
}

// Occupancy is how many blocks of f run on one multiprocessor at once.
func (c *Context) Occupancy(f Function, threads, shared int) (int, error) {
	var blocks C.int32_t
	err := c.check(C.fkv_function_occupancy(c.c, C.uintptr_t(f), C.int32_t(threads), C.uint64_t(shared), &blocks))
	return int(blocks), err
}
