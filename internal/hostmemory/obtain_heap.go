//go:build race || !(unix || windows)

package hostmemory

import (
	"errors"
	"unsafe"
)

// cacheLine is the alignment of what Obtain returns, at least.
const cacheLine = 64

// Obtain takes n zeroed bytes from the Go heap: where there is no system call for
// it, and under the race detector, which watches only the heap.
func Obtain(n int) (mem []byte, err error) {
	defer func() {
		if recover() != nil { // the length is beyond the address space
			mem, err = nil, errors.New("the size exceeds the address space")
		}
	}()
	mem = make([]byte, n+cacheLine)
	shift := -uintptr(unsafe.Pointer(unsafe.SliceData(mem))) % cacheLine
	return mem[shift:][:n:n], nil
}

// Discard leaves the memory to the garbage collector.
func Discard([]byte) error { return nil }
