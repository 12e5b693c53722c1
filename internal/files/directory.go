package files

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Prepare makes a directory for its owner alone (0700) that lasts, if it is not there. ErrRefused is one that is another user's, that others
// may write to, or that is none.
func Prepare(dir string) error {
	dir = filepath.Clean(dir) // else a separator at the end would have a link followed
	if info, err := os.Lstat(dir); err == nil {
		if err := ownDirectory(dir, info); err != nil {
			return err
		}
	}
	made := Missing(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := ownDirectory(dir, info); err != nil {
		return err
	}
	for _, d := range made { // else a crash may lose them, with all that is synced in them
		if err := SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// Owned reports whether a directory is this user's, and no other may write to it.
func Owned(info fs.FileInfo) bool { return !foreign(info) && !writable(info) }

// There tells whether an open file is still what its path leads to.
func There(f *os.File) bool {
	now, err := os.Lstat(f.Name())
	if err != nil {
		return !os.IsNotExist(err)
	}
	is, err := f.Stat()
	return err != nil || os.SameFile(now, is)
}

// Control calls a function with the descriptor of a file, which stays open for that long.
func Control(f *os.File, call func(fd uintptr) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := c.Control(func(fd uintptr) { failed = call(fd) }); err != nil {
		return err
	}
	return failed
}

// Missing is the directories on the way to one that are not there, the last one first.
func Missing(dir string) (out []string) {
	for {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			return out
		}
		out = append(out, dir)
		dir = filepath.Dir(dir)
	}
}
