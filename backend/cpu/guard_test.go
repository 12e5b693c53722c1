//go:build linux

package cpu

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// guarded is n elements, all 0, that end where a page begins whose use is a fault, and
// are aligned to no more than their size demands.
func guarded[T float32 | float64 | uint32 | uint16 | byte](t testing.TB, n int) []T {
	t.Helper()
	var zero T
	page, size := os.Getpagesize(), n*int(unsafe.Sizeof(zero))
	room := (size + page - 1) / page * page
	mem, err := syscall.Mmap(-1, 0, room+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(mem)) })
	require.NoError(t, syscall.Mprotect(mem[room:], syscall.PROT_NONE))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem[room-size:]))), n)
}

// guard is a copy of x in guarded memory.
func guard[T float32 | float64 | uint32 | uint16 | byte](t testing.TB, x []T) []T {
	t.Helper()
	out := guarded[T](t, len(x))
	copy(out, x)
	return out
}
