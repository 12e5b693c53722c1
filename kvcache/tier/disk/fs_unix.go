//go:build linux || darwin || freebsd

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// writable tells whether others may write to a directory, or change what is in it.
func writable(info fs.FileInfo) bool { return info.Mode().Perm()&0o022 != 0 }

// shared tells whether others may read or write a file.
func shared(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

// foreign tells whether a directory or file is another user's, who may open it to others at any time.
func foreign(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) != os.Geteuid()
}

// asItIs opens what a path itself names: no link is followed, and no pipe blocks.
const asItIs = unix.O_NOFOLLOW | unix.O_NONBLOCK

// links is how many names an open file has.
func links(_ *os.File, info fs.FileInfo) (uint64, error) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 1, nil
	}
	return uint64(s.Nlink), nil
}

func (f *osFile) Lock() error {
	err := f.control(func(fd uintptr) error {
		return again(func() error { return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

func (machine) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

// again repeats a call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

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
