package snapshot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// WriteFile writes a file as a whole or not at all: under a temporary name in its directory, and renamed when write is done and the
// content is synced. Only its owner may read it (0600; on Windows it has the rights of the folder). An existing file is replaced, and
// unchanged after an error, except one of the last step, the sync of the directory: then the new file is
// there, but a crash may bring the old one back. A link is followed. Anything but a regular file, such as a device, is an error.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	if behind, err := filepath.EvalSymlinks(path); err == nil {
		path = behind
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return &os.PathError{Op: "replace", Path: path, Err: errNoFile}
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".snapshot-*") // 0600
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done { // also where write panics
			err = errors.Join(err, ignore(f.Close(), os.ErrClosed), os.Remove(f.Name()))
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(syncFile(f), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	done = true
	return syncDir(filepath.Dir(path))
}

var errNoFile = errors.New("it is not a regular file; name one, or a path that does not exist")

func ignore(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

// syncFile is Sync, except in tests.
var syncFile = (*os.File).Sync

// syncDir syncs the entries of a directory, where possible: the process may not have the right to read the
// directory, and Windows and some file systems do not sync directories.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return ignore(err, fs.ErrPermission)
	}
	defer d.Close()
	return ignore(ignore(syncFile(d), errors.ErrUnsupported), syscall.EINVAL)
}
