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

// Is matches any ErrInUse with errors.Is(err, ErrInUse{}).
func (e ErrInUse) Is(target error) bool {
	t, ok := target.(ErrInUse)
	return ok && (t == e || t == ErrInUse{})
}

// ErrGone is a directory that was removed or replaced while it was open. What was in it is lost; the tier can only be closed.
type ErrGone struct{ Dir string }

func (e ErrGone) Error() string {
	return fmt.Sprintf("tier: disk: %s was removed while it was open; open it anew", e.Dir)
}

// Is matches any ErrGone with errors.Is(err, ErrGone{}).
func (e ErrGone) Is(target error) bool {
	t, ok := target.(ErrGone)
	return ok && (t == e || t == ErrGone{})
}

var (
	errBackOff = errors.New("not tried again yet after what failed last")
	errLocked  = files.ErrLocked
	errEarlier = errors.New("written by an earlier process")
	errNoSpace = errors.New("no space") // of Allocate: the file system has no room or cannot have a file of that size
)
