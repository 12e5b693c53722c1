//go:build linux || darwin || freebsd

package kvstore

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes a file for this process, until it is closed or the process ends, in whichever way.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
