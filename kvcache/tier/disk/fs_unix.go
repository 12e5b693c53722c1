//go:build linux || darwin || freebsd

package disk

import (
	"errors"

	"golang.org/x/sys/unix"
)

// allocated is the error of Allocate for that of a call: a file system that cannot take room beforehand takes it later.
func (f *osFile) allocated(to int64, err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG):
		return errNoSpace
	case errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL):
		return f.Truncate(to)
	}
	return err
}
