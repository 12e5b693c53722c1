package states

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// ErrClosed is returned by calls after Close, and by calls on a Store that Open did not return.
var ErrClosed = errors.New("states: the store is closed")

// ErrMiss reports that the store has no such state. If a state that would have matched is stored under another identity of the same salt, Field
// names the first field that differs: "model", "engine", "version", "settings" or "adapter". errors.Is(err, ErrMiss{}) matches any ErrMiss.
type ErrMiss struct {
	Field      string // "" if there is no such state under any identity of the salt
	Have, Want string // values of Field: in the store, and asked for
}

func (e ErrMiss) Error() string {
	if e.Field == "" {
		return "states: there is no such state"
	}
	return fmt.Sprintf("states: there is no such state: a stored one has %s %q and not %q", e.Field, e.Have, e.Want)
}

// Is reports whether target is the same error or the zero ErrMiss.
func (e ErrMiss) Is(target error) bool {
	t, ok := target.(ErrMiss)
	return ok && (t == e || t == ErrMiss{})
}

// ErrDamaged reports a state that cannot be read as it was put. The store has given it up; compute it again.
// errors.Is(err, ErrDamaged{}) matches any ErrDamaged.
type ErrDamaged struct {
	ID   ID
	What string // what is damaged, such as a chunk, and how
}

func (e ErrDamaged) Error() string {
	return fmt.Sprintf("states: state %v is damaged and was given up: %s; compute it again", e.ID, e.What)
}

// Is reports whether target is the same error or the zero ErrDamaged.
func (e ErrDamaged) Is(target error) bool {
	t, ok := target.(ErrDamaged)
	return ok && (t == e || t == ErrDamaged{})
}

// ErrInUse reports a directory that this process or another one already has open. errors.Is(err, ErrInUse{}) matches any ErrInUse.
type ErrInUse struct{ Dir string }

func (e ErrInUse) Error() string {
	return fmt.Sprintf("states: %s is in use; close the other store, or give each process a directory of its own", e.Dir)
}

// Is reports whether target is the same error or the zero ErrInUse.
func (e ErrInUse) Is(target error) bool {
	t, ok := target.(ErrInUse)
	return ok && (t == e || t == ErrInUse{})
}

// ErrFull reports that there is no room for a state, even after everything was evicted that may be. errors.Is(err, ErrFull{}) matches any ErrFull.
// All sizes are in bytes.
type ErrFull struct {
	Need   int64 // size of the file that does not fit, or of a state that is larger than the budget
	Used   int64 // size of the files that cannot be evicted (pinned, being read or written), and of the reserve for rewriting packs
	Budget int64 // Options.Bytes
	Free   int64 // free bytes of the file system
	Floor  int64 // Options.Floor
}

func (e ErrFull) Error() string {
	if e.Need > e.Budget {
		return fmt.Sprintf("states: no room for %s or more, of a budget of %s; raise Bytes", bytesize.String(e.Need), bytesize.String(e.Budget))
	}
	if e.Used+e.Need > e.Budget {
		return fmt.Sprintf("states: no room for %s: %s of the budget of %s are pinned or in use; unpin or delete states, or raise Bytes",
			bytesize.String(e.Need), bytesize.String(e.Used), bytesize.String(e.Budget))
	}
	return fmt.Sprintf("states: no room for %s: the file system has %s free, and %s are to stay free; make room, or lower Floor",
		bytesize.String(e.Need), bytesize.String(e.Free), bytesize.String(e.Floor))
}

// Is reports whether target is the same error or the zero ErrFull.
func (e ErrFull) Is(target error) bool {
	t, ok := target.(ErrFull)
	return ok && (t == e || t == ErrFull{})
}

// ErrConfig reports a directory that cannot be used with the given options. The directory is left unchanged.
// errors.Is(err, ErrConfig{}) matches any ErrConfig.
type ErrConfig struct {
	Field string // the option, the file, or the field of meta.json that is wrong, such as "Bytes", "lock" or "version"
	What  string // what is wrong with it, and what to do
}

func (e ErrConfig) Error() string { return fmt.Sprintf("states: %s: %s", e.Field, e.What) }

// Is reports whether target is the same error or the zero ErrConfig.
func (e ErrConfig) Is(target error) bool {
	t, ok := target.(ErrConfig)
	return ok && (t == e || t == ErrConfig{})
}

// ErrArgument reports an invalid argument of a call. Op is the call, such as "put", and What says what is wrong.
// errors.Is(err, ErrArgument{}) matches any ErrArgument.
type ErrArgument struct{ Op, What string }

func (e ErrArgument) Error() string { return fmt.Sprintf("states: %s: %s", e.Op, e.What) }

// Is reports whether target is the same error or the zero ErrArgument.
func (e ErrArgument) Is(target error) bool {
	t, ok := target.(ErrArgument)
	return ok && (t == e || t == ErrArgument{})
}

func badConfig(field, format string, args ...any) error {
	return ErrConfig{field, fmt.Sprintf(format, args...)}
}

func argument(op, format string, args ...any) error {
	return ErrArgument{op, fmt.Sprintf(format, args...)}
}

// failed says in what an error came, where it does not say so itself.
func failed(op string, err error) error {
	switch err.(type) {
	case ErrFull, ErrArgument:
		return err
	}
	return fmt.Errorf("states: %s: %w", op, err)
}
