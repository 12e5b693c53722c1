//go:build linux && cgo && !nocuda

package driver

// #include "driver.h"
// #cgo noescape fkv_pool_create
// #cgo nocallback fkv_pool_create
// #cgo nocallback fkv_pool_destroy
// #cgo nocallback fkv_pool_trim
// #cgo noescape fkv_pool_reserved
// #cgo nocallback fkv_pool_reserved
// #cgo noescape fkv_pool_alloc
// #cgo nocallback fkv_pool_alloc
// #cgo nocallback fkv_pool_free
import "C"

// Pool is a stream-ordered memory pool, a CUmemoryPool, of a Device with Pools.
type Pool uintptr

// NewPool makes a pool on the context's device that keeps up to keep free bytes
// for the next allocation. Allocating from it never makes a stream wait for
// another.
func (c *Context) NewPool(keep int) (Pool, error) {
	var p C.uintptr_t
	err := c.check(C.fkv_pool_create(c.c, C.int32_t(c.Device.Ordinal), C.uint64_t(keep), &p))
	return Pool(p), err
}

// DestroyPool ends a pool all of whose memory was freed.
func (c *Context) DestroyPool(p Pool) error { return c.check(C.fkv_pool_destroy(c.c, C.uintptr_t(p))) }

// Trim returns the pool's free memory to the device.
func (c *Context) Trim(p Pool) error { return c.check(C.fkv_pool_trim(c.c, C.uintptr_t(p))) }

// Reserved is the device memory, in bytes, that the pool has: what is allocated from
// it, and what was freed and not yet returned.
func (c *Context) Reserved(p Pool) (int64, error) {
	var bytes C.uint64_t
	err := c.check(C.fkv_pool_reserved(c.c, C.uintptr_t(p), &bytes))
	return int64(bytes), err
}

// AllocFrom enqueues an allocation: the memory, aligned to 256 bytes, may be used
// by work that is ordered after it. size is not 0.
func (c *Context) AllocFrom(p Pool, size int, s Stream) (Ptr, error) {
	var ptr C.uint64_t
	err := c.check(C.fkv_pool_alloc(c.c, C.uintptr_t(p), C.uint64_t(size), C.uintptr_t(s), &ptr))
	return Ptr(ptr), err
}

// FreeAsync enqueues the return of memory of AllocFrom to its pool.
func (c *Context) FreeAsync(p Ptr, s Stream) error {
	return c.check(C.fkv_pool_free(c.c, C.uint64_t(p), C.uintptr_t(s)))
}
