//go:build !race

package hostmemory

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the memory that one entry of the processor's tables of addresses may cover,
// where the system gives it in one piece. Less would not be worth aligning.
const hugePage = 2 << 20

// Obtain maps n zeroed bytes outside the Go heap, aligned to a page: to a huge one where
// that may help, which the system is then asked for.
func Obtain(n int) ([]byte, error) {
	size, extra := pages(n), uintptr(0)
	if n >= hugePage {
		extra = hugePage
	}
	addr, err := unix.MmapPtr(-1, 0, nil, size+extra, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, err
	}
	if extra == 0 {
		return unsafe.Slice((*byte)(addr), n), nil
	}
	head := -uintptr(addr) % hugePage
	mem := unsafe.Slice((*byte)(unsafe.Add(addr, head)), n)
	for _, spare := range []struct{ begin, end uintptr }{{0, head}, {head + size, size + extra}} {
		if spare.begin == spare.end {
			continue
		}
		if err := unix.MunmapPtr(unsafe.Add(addr, spare.begin), spare.end-spare.begin); err != nil {
			return nil, err // the process has as many mappings as it may: what is left of this one is lost
		}
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // a system without huge pages says no: its pages do, too
	return mem, nil
}

// Discard returns to the system what Obtain returned.
func Discard(mem []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), pages(len(mem)))
}

// pages is n rounded up to whole pages.
func pages(n int) uintptr {
	page := uintptr(os.Getpagesize())
	return (uintptr(n) + page - 1) &^ (page - 1)
}
