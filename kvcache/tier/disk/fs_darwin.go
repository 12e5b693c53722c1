package disk

import (
	"golang.org/x/sys/unix"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

// Allocate takes the room first: a file that is only made longer has none.
func (f *osFile) Allocate(from, to int64) error {
	store := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: to - from}
	err := f.control(func(fd uintptr) error {
		return files.Again(func() error { return unix.FcntlFstore(fd, unix.F_PREALLOCATE, &store) })
	})
	if err != nil {
		return f.allocated(to, err)
	}
	return f.allocated(to, files.Again(func() error { return f.Truncate(to) }))
}
