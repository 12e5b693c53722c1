//go:build !race

package hostmemory

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

// Obtain commits n zeroed bytes outside the Go heap, aligned to a page.
func Obtain(n int) ([]byte, error) {
	addr, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// The address is no Go pointer, so it is read as one rather than converted.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n), nil
}

// Discard returns to the system what Obtain returned.
func Discard(mem []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(mem))), 0, windows.MEM_RELEASE)
}
