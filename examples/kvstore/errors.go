package kvstore

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// errLocked is a file that somebody else has taken.
var errLocked = errors.New("locked")

// ErrInUse is a directory that another process, or this one, has open, or a name whose store is open: close it first.
type ErrInUse struct {
	Dir  string
	Name string // empty: the whole directory
}

func (e ErrInUse) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("kvstore: %s is open already, here or in another process", e.Dir)
	}
	return fmt.Sprintf("kvstore: the store %q of %s is open already", e.Name, e.Dir)
}

// ErrCorrupt is a snapshot that cannot be read as it was committed. Commit another one, or Reset the store.
type ErrCorrupt struct {
	Name string // of the store
	What string // such as a chunk, and what is wrong with it
	Err  error  // the cause, where there is one, such as fs.ErrNotExist
}

func (e ErrCorrupt) Error() string {
	text := fmt.Sprintf("kvstore: %q is damaged: %s", e.Name, e.What)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}
func (e ErrCorrupt) Unwrap() error { return e.Err }

func argument(op, format string, args ...any) error {
	return backend.ErrArgument{Package: "kvstore", Op: op, What: fmt.Sprintf(format, args...)}
}

// failed says in which call of which store an error came.
func failed(name, op string, err error) error {
	return fmt.Errorf("kvstore: %q: %s: %w", name, op, err)
}
