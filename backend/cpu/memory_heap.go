//go:build race || !(unix || windows)

package cpu

import (
	"errors"
	"unsafe"
)

// alignment is that of a cache line.
const alignment = 64

// obtain takes n zeroed bytes from the Go heap: where there is no system call for
// it, and under the race detector, which watches only the heap.
func obtain(n int) (mem []byte, err error) {
	defer func() {
		if recover() != nil { // the length is beyond the address space
			mem, err = nil, errors.New("the size exceeds the address space")
		}
	}()
	mem = make([]byte, n+alignment)
	shift := -uintptr(unsafe.Pointer(unsafe.SliceData(mem))) % alignment
	return mem[shift:][:n:n], nil
}

// discard leaves the memory to the garbage collector.
func discard([]byte) error { return nil }
