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

// WriteFile has a file written as a whole or not at all: under another name in its directory, which the file takes when write is done and
// the disk has it. Its owner alone may read it (0600; on Windows it has the rights of the folder). A file that was there is replaced, and
// stays as it was after an error, but for that of the last step, which is to have the disk keep the file's place in the directory: the new file is
// there then, and a crash may bring the old one back. Where path is a link, that is the file behind it. What is no file, as a device, is an error.
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

var errNoFile = errors.New("it is no regular file; give the name of one, or of none that is there")

func ignore(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

// syncFile is Sync, but in tests.
var syncFile = (*os.File).Sync

// syncDir has the disk keep the entries of a directory, where the system can do that for who uses it: a directory may be one that he may not
// read, and those of Windows and of some file systems take no sync.
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
