package hostmemory

import "golang.org/x/sys/unix"

// Physical is the bytes of the machine's memory; 0 when unknown.
func Physical() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
