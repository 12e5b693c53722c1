package hostmemory

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

var globalMemoryStatusEx = windows.NewLazySystemDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// Physical is the bytes of the machine's memory; 0 when unknown.
func Physical() int64 {
	var status struct { // MEMORYSTATUSEX
		length, load uint32
		totalPhys    uint64
		_            [6]uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	if ok, _, _ := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0
	}
	return int64(status.totalPhys)
}
