package kvstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
)

// disk is how files change. Tests have others, which are full, fail or die.
type disk struct {
	write  func(path string, b []byte) error // as a whole or not at all
	remove func(path string) error           // what is not there, too
}

var machine = disk{
	write: func(path string, b []byte) error {
		return snapshot.WriteFile(path, func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
	},
	remove: func(path string) error {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	},
}

// syncDir has the disk keep the entries of a directory, where that can be.
func syncDir(path string) {
	if f, err := os.Open(path); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

func (d *Dir) listPath(name string) string { return filepath.Join(d.path, "lists", fileOf(name)) }
func (d *Dir) chunkPath(s sum) string {
	return filepath.Join(d.path, "chunks", s.String()[:2], s.String())
}

// make makes the folders.
func (d *Dir) make() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"lists", "chunks"} {
		if err := makeFolder(filepath.Join(d.path, name)); err != nil {
			return err
		}
	}
	return nil
}

// makeFolder makes a folder that lasts, if it is not there.
func makeFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	syncDir(filepath.Dir(path))
	return err
}

// regular refuses anything but a regular file, such as a pipe, which would block, or a link, which leads elsewhere. A missing file is no error.
func regular(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("kvstore: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("kvstore: %s is not a regular file (%v); remove it", path, info.Mode().Type())
	}
	return nil
}

// readLists reads what is committed. One that is not what was written is noted; one that cannot be read at all fails, for it may be read another time.
func (d *Dir) readLists() error {
	folder := filepath.Join(d.path, "lists")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("kvstore: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		if strings.HasPrefix(e.Name(), ".") { // of a write that did not end
			if err := d.disk.remove(path); err != nil {
				return fmt.Errorf("kvstore: %w", err)
			}
			continue
		}
		if err := regular(path); err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("kvstore: %w", err)
		}
		l, err := decode(e.Name(), b)
		if err != nil {
			d.damaged[e.Name()] = err
			continue
		}
		d.lists[l.Name] = l
		for _, c := range l.Chunks {
			d.take(c).stored = true
		}
	}
	return nil
}

// sweep removes what nobody needs: unfinished files, and chunks that no list names.
func (d *Dir) sweep() error {
	needed := map[string]bool{}
	for s := range d.chunks {
		needed[s.String()] = true
	}
	return filepath.WalkDir(filepath.Join(d.path, "chunks"), func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("kvstore: %w", err)
		case e.IsDir() || needed[e.Name()]:
			return nil
		case strings.HasPrefix(e.Name(), "."), len(d.damaged) == 0:
			if err := d.disk.remove(path); err != nil {
				return fmt.Errorf("kvstore: %w", err)
			}
		}
		return nil
	})
}
