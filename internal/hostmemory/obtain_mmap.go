//go:build unix && !linux && !race

package hostmemory

import "golang.org/x/sys/unix"

// Obtain maps n zeroed bytes outside the Go heap, aligned to a page.
func Obtain(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// Discard returns to the system what Obtain returned.
func Discard(mem []byte) error { return unix.Munmap(mem) }
