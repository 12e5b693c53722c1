package files

import (
	"io/fs"
	"os"
	"path/filepath"
)

// Prepare creates a directory, with its parents, for its owner alone (mode 0700) if it does not exist, and syncs the parents so that it survives a
// crash. It returns ErrRefused if the path is not a directory, belongs to another user, or can be written to by others.
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

// Owned reports whether a directory belongs to this user and cannot be written to by others.
func Owned(info fs.FileInfo) bool { return !foreign(info) && !writable(info) }

// There reports whether the path of an open file still leads to that file. It also returns true if it cannot tell.
func There(f *os.File) bool {
	now, err := os.Lstat(f.Name())
	if err != nil {
		return !os.IsNotExist(err)
	}
	is, err := f.Stat()
	return err != nil || os.SameFile(now, is)
}

// Control calls a function with the descriptor of a file, which stays open during the call. It returns the function's error.
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

// Missing returns the directories on the path to dir, including dir, that do not exist, the deepest one first.
func Missing(dir string) (out []string) {
	for {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			return out
		}
		out = append(out, dir)
		above := filepath.Dir(dir)
		if above == dir { // a volume of Windows that is not there
			return out
		}
		dir = above
	}
}
