package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
)

// Cause is an error in the form in which it is logged: what the system said, or its Go type. The text of an error can contain anything, such as the
// keys that a program's own tier puts into its errors.
func Cause(err error) slog.Attr {
	const key = "cause"
	if err == nil {
		return slog.Attr{} // which handlers leave out
	}
	if errno, is := errors.AsType[syscall.Errno](err); is {
		return slog.String(key, errno.Error())
	}
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return slog.String(key, known.Error())
		}
	}
	return slog.String(key, fmt.Sprintf("%T", innermost(err)))
}

// innermost is the error that others wrap; of several, the first.
func innermost(err error) error {
	for {
		var next error
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				next = all[0]
			}
		}
		if next == nil {
			return err
		}
		err = next
	}
}
