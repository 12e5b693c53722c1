//go:build !linux && !darwin && !windows

package hostmemory

// Physical is the bytes of the machine's memory: unknown here.
func Physical() int64 { return 0 }
