//go:build linux && cgo && !nocuda

package driver

// #include "driver.h"
// #cgo noescape fkv_memory_info
// #cgo nocallback fkv_memory_info
// #cgo noescape fkv_memory_alloc
// #cgo nocallback fkv_memory_alloc
// #cgo nocallback fkv_memory_free
// #cgo noescape fkv_host_alloc
// #cgo nocallback fkv_host_alloc
// #cgo nocallback fkv_host_free
// #cgo noescape fkv_copy_to_device
// #cgo nocallback fkv_copy_to_device
// #cgo noescape fkv_copy_to_host
// #cgo nocallback fkv_copy_to_host
// #cgo nocallback fkv_copy
// #cgo noescape fkv_pointer_get
// #cgo nocallback fkv_pointer_get
import "C"

import "unsafe"

// Ptr is an address of device memory, a CUdeviceptr.
type Ptr uint64

// MemInfo is the device's memory in bytes: what is free, and all of it.
func (c *Context) MemInfo() (free, total int64, err error) {
	var f, t C.uint64_t
	err = c.check(C.fkv_memory_info(c.c, &f, &t))
	return int64(f), int64(t), err
}

// Alloc returns device memory, aligned to 256 bytes. size is not 0. The call may
// wait for the device.
func (c *Context) Alloc(size int) (Ptr, error) {
	var p C.uint64_t
	err := c.check(C.fkv_memory_alloc(c.c, C.uint64_t(size), &p))
	return Ptr(p), err
}

// Free gives memory of Alloc back. Nothing may use it any more.
func (c *Context) Free(p Ptr) error { return c.check(C.fkv_memory_free(c.c, C.uint64_t(p))) }

// AllocHost returns page-locked host memory, which the device reads and writes by
// itself while the host goes on.
func (c *Context) AllocHost(size int) ([]byte, error) {
	var p unsafe.Pointer
	if err := c.check(C.fkv_host_alloc(c.c, C.uint64_t(size), &p)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), size), nil
}

// FreeHost gives memory of AllocHost back.
func (c *Context) FreeHost(mem []byte) error {
	return c.check(C.fkv_host_free(c.c, unsafe.Pointer(unsafe.SliceData(mem))))
}

// CopyToDevice enqueues a copy of src, which is memory of AllocHost and stays as
// it is until the copy is done.
func (c *Context) CopyToDevice(dst Ptr, src []byte, s Stream) error {
	return c.check(C.fkv_copy_to_device(c.c, C.uint64_t(dst), unsafe.Pointer(unsafe.SliceData(src)), C.uint64_t(len(src)), C.uintptr_t(s)))
}

// CopyToHost enqueues a copy into dst, which is memory of AllocHost.
func (c *Context) CopyToHost(dst []byte, src Ptr, s Stream) error {
	return c.check(C.fkv_copy_to_host(c.c, unsafe.Pointer(unsafe.SliceData(dst)), C.uint64_t(src), C.uint64_t(len(dst)), C.uintptr_t(s)))
}

// Copy enqueues a copy within the device. The ranges do not overlap.
func (c *Context) Copy(dst, src Ptr, size int, s Stream) error {
	return c.check(C.fkv_copy(c.c, C.uint64_t(dst), C.uint64_t(src), C.uint64_t(size), C.uintptr_t(s)))
}

// PtrInfo is what the driver knows of an address.
type PtrInfo struct {
	OnDevice bool // device memory
	Ordinal  int  // of its device
	Foreign  bool // it belongs to another context than the one asked
	// The allocation it lies in: [Start, Start+Size). Size is 0 where that is unknown.
	Start Ptr
	Size  uint64
}

// Describe looks an address up. One that the driver does not know is an error.
func (c *Context) Describe(p Ptr) (PtrInfo, error) {
	var out C.struct_fkv_pointer
	if err := c.check(C.fkv_pointer_get(c.c, C.uint64_t(p), &out)); err != nil {
		return PtrInfo{}, err
	}
	return PtrInfo{OnDevice: out.on_device != 0, Ordinal: int(out.ordinal), Foreign: out.context != 0 && out.context != c.c.context,
		Start: Ptr(out.start), Size: uint64(out.bytes)}, nil
}
