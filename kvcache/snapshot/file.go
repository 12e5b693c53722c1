package snapshot

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteFile has a file written as a whole or not at all: under another name in its directory, which the file takes when write is done and
// the disk has it. Its owner alone may read it (0600; on Windows it has the rights of the folder). A file that was there is replaced, and
// stays as it was after an error.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
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
	syncDir(dir) // where that cannot be, a crash may bring the old file back
	return nil
}

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
