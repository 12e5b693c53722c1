//go:build linux || darwin || freebsd

package files

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

// Lock locks a file exclusively, without waiting, until the file is closed or the process ends. It returns ErrLocked if the file is already locked.
func Lock(f *os.File) error {
	err := Control(f, func(fd uintptr) error {
		return Again(func() error { return unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) })
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// SyncDir syncs a directory, so that the files that were created in it survive a crash of the machine.
func SyncDir(dir string) error {
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

// Again calls a function, and calls it again as long as it fails because a signal interrupted it (EINTR).
func Again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
