package disk

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Allocate makes the file longer, which takes the room.
func (f *osFile) Allocate(_, to int64) error {
	err := f.Truncate(to)
	if errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) {
		return errNoSpace
	}
	return err
}
