package disk

import (
	"golang.org/x/sys/unix"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

func (f *osFile) Allocate(from, to int64) error {
	err := f.control(func(fd uintptr) error {
		return files.Again(func() error { return unix.Fallocate(int(fd), 0, from, to-from) })
	})
	return f.allocated(to, err)
}

// Sync leaves out the times of the file, which a journal would be written for.
func (f *osFile) Sync() error {
	return f.control(func(fd uintptr) error { return files.Again(func() error { return unix.Fdatasync(int(fd)) }) })
}
