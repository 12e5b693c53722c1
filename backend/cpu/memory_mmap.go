//go:build unix && !linux && !race

package cpu

import "golang.org/x/sys/unix"

// obtain maps n zeroed bytes outside the Go heap, aligned to a page.
func obtain(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func discard(mem []byte) error { return unix.Munmap(mem) }
