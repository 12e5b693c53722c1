package snapshot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteFile has a file written as a whole or not at all: under another name in its directory, which the file takes when write is done and
// the disk has it. Its owner alone may read it (0600; on Windows it has the rights of the folder). A file that was there is replaced, and
// stays as it was after an error; where path is a link, that is the file behind it. What is no file, as a device, is an error.
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
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	done = true
	syncDir(filepath.Dir(path)) // where that cannot be, a crash may bring the old file back
	return nil
}

var errNoFile = errors.New("it is no regular file; give the name of one, or of none that is there")

func ignore(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
