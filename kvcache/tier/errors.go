package tier

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// ErrClosed is that of a call to a tier or mover that is closed.
type ErrClosed struct{ Name string }

func (e ErrClosed) Error() string { return fmt.Sprintf("tier: %s is closed", e.Name) }

// ErrFailed is a call that a tier could not do. It wraps the cause; the blocks of the call are as if they had not been asked for.
type ErrFailed struct {
	Name string // of the tier
	Op   string // has, get, put, delete, clear
	Err  error
}

func (e ErrFailed) Error() string { return fmt.Sprintf("tier: %s: %s: %v", e.Name, e.Op, e.Err) }
func (e ErrFailed) Unwrap() error { return e.Err }

// ErrConfig is a tier that cannot be opened as it was asked for.
type ErrConfig struct{ Name, What string }

func (e ErrConfig) Error() string { return fmt.Sprintf("tier: %s: %s", e.Name, e.What) }

// ErrCorrupt is a payload that a tier returned and that differs from what was stored under its key. It is a miss.
type ErrCorrupt struct {
	Name string // of the tier
	Key  Key
}

func (e ErrCorrupt) Error() string {
	return fmt.Sprintf("tier: %s: get: the payload of block %x is not what was stored", e.Name, e.Key[:8])
}

// ErrBusy is a job that a mover has no room for now: try later, in smaller jobs, or with Job.Wait.
type ErrBusy struct{ Need, Free, Most int64 } // bytes

func (e ErrBusy) Error() string {
	return fmt.Sprintf("tier: mover: a job of %s, with room for %s of %s", bytesize.String(e.Need), bytesize.String(e.Free), bytesize.String(e.Most))
}

// ErrHung is a call of a tier that goes on although its context ended some time ago. What it was lent is released when it returns.
type ErrHung struct{ Name, Op string }

func (e ErrHung) Error() string { return fmt.Sprintf("tier: %s: %s hangs", e.Name, e.Op) }

// ErrPanic is a call of a tier that panicked.
type ErrPanic struct {
	Value any
	Stack string
}

func (e ErrPanic) Error() string { return fmt.Sprintf("tier: panic: %v", e.Value) }

// ErrRefused is a tier that is not called for a while: it failed several times in a row, or a call of it takes long.
type ErrRefused struct{ Name string }

func (e ErrRefused) Error() string {
	return fmt.Sprintf("tier: %s: not called, because it failed before or a call has not returned", e.Name)
}
