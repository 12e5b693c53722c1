package disk

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

// forget has the system forget what it keeps of a file in memory, and tells whether it did: a read that may not wait for the
// disk finds nothing anywhere.
func (f *osFile) forget() bool {
	size, err := f.Size()
	if err != nil {
		return false
	}
	cold := true
	err = f.control(func(fd uintptr) error {
		if err := files.Again(func() error { return unix.Fadvise(int(fd), 0, 0, unix.FADV_DONTNEED) }); err != nil {
			return err
		}
		b := [][]byte{make([]byte, 1)}
		for i := range int64(16) {
			_, err := unix.Preadv2(int(fd), b, i*size/16, unix.RWF_NOWAIT)
			cold = cold && errors.Is(err, unix.EAGAIN)
		}
		return nil
	})
	return err == nil && cold
}
