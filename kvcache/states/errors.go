package states

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// ErrClosed is a call after Close, or on a Store that Open did not return.
var ErrClosed = errors.New("states: the store is closed")

// ErrMiss is a state that is not there. Where one of the same tokens, or of some of them, is there under another identity of the same salt, Field is
// what differs first: model, engine, version, settings or adapter. errors.Is(err, ErrMiss{}) matches any.
type ErrMiss struct {
	Field      string // empty: there is nothing like it
	Have, Want string // in the store, and asked for
}

func (e ErrMiss) Error() string {
	if e.Field == "" {
		return "states: there is no such state"
	}
	return fmt.Sprintf("states: there is no such state: a stored one has %s %q and not %q", e.Field, e.Have, e.Want)
}

// Is matches the same error and the zero value.
func (e ErrMiss) Is(target error) bool {
	t, ok := target.(ErrMiss)
	return ok && (t == e || t == ErrMiss{})
}

// ErrDamaged is a state that cannot be read as it was put. It has been given up: compute it again. errors.Is(err, ErrDamaged{}) matches any.
type ErrDamaged struct {
	ID   ID
	What string // such as a chunk, and what is wrong with it
}

func (e ErrDamaged) Error() string {
	return fmt.Sprintf("states: state %v is damaged and was given up: %s; compute it again", e.ID, e.What)
}

// Is matches the same error and the zero value.
func (e ErrDamaged) Is(target error) bool {
	t, ok := target.(ErrDamaged)
	return ok && (t == e || t == ErrDamaged{})
}

// ErrInUse is a directory that is open already, by this process or another one.
type ErrInUse struct{ Dir string }

func (e ErrInUse) Error() string {
	return fmt.Sprintf("states: %s is in use; close the other store, or give each process a directory of its own", e.Dir)
}

// ErrFull is a state for which there is no room, though all went that may. errors.Is(err, ErrFull{}) matches any.
type ErrFull struct {
	Need   int64 // bytes of the file that has no room, or of a state that is larger than the budget
	Used   int64 // of the store's files, which are pinned, being read or written, and what is left for packs that are rewritten
	Budget int64 // Options.Bytes
	Free   int64 // of the file system
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

// Is matches the same error and the zero value.
func (e ErrFull) Is(target error) bool {
	t, ok := target.(ErrFull)
	return ok && (t == e || t == ErrFull{})
}

// ErrConfig is a directory that cannot be used with these options, and is as it was. errors.Is(err, ErrConfig{}) matches any.
type ErrConfig struct {
	Field string // an option, or a field of meta.json, such as "version"
	What  string // is wrong, and what to do
}

func (e ErrConfig) Error() string { return fmt.Sprintf("states: %s: %s", e.Field, e.What) }

// Is matches the same error and the zero value.
func (e ErrConfig) Is(target error) bool {
	t, ok := target.(ErrConfig)
	return ok && (t == e || t == ErrConfig{})
}

// ErrArgument is an argument that makes no sense. errors.Is(err, ErrArgument{}) matches any.
type ErrArgument struct{ Op, What string }

func (e ErrArgument) Error() string { return fmt.Sprintf("states: %s: %s", e.Op, e.What) }

// Is matches the same error and the zero value.
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

func failed(op string, err error) error { return fmt.Errorf("states: %s: %w", op, err) }
