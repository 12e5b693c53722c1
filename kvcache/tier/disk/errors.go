package disk

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

// ErrInUse is a directory that is open already, by this process or another one.
type ErrInUse struct{ Dir string }

func (e ErrInUse) Error() string {
	return fmt.Sprintf("tier: disk: %s is in use; close the other tier, or give each process a directory of its own", e.Dir)
}

// ErrGone is a directory that was removed or replaced while it was open. What was in it is lost; the tier can only be closed.
type ErrGone struct{ Dir string }

func (e ErrGone) Error() string {
	return fmt.Sprintf("tier: disk: %s was removed while it was open; open it anew", e.Dir)
}

var (
	errBackOff = errors.New("not tried again yet after what failed last")
	errLocked  = files.ErrLocked
	errEarlier = errors.New("written by an earlier process")
	errNoSpace = errors.New("no space") // of Allocate: the file system has no room or cannot have a file of that size
)
