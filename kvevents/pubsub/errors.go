// Errors say which call or option was wrong, and what to do.

package pubsub

import (
	"errors"
	"fmt"
)

// ErrClosed is returned by calls after Close, and by those of a Publisher or Subscriber that Listen or Subscribe did not make.
var ErrClosed = errors.New("pubsub: closed")

// ErrFull is returned for events after which more blocks would be stored than PublisherOptions.Blocks allows. None of them is published.
// errors.Is(err, ErrFull{}) matches any.
type ErrFull struct {
	Have, Most int // blocks: after the events, and the bound
}

func (e ErrFull) Error() string {
	return fmt.Sprintf("pubsub: %d blocks would be stored, and Blocks allows %d; nothing was published: publish removals first, or raise Blocks", e.Have, e.Most)
}

// Is matches the same error and the zero value.
func (e ErrFull) Is(target error) bool {
	t, ok := target.(ErrFull)
	return ok && (t == e || t == ErrFull{})
}

// ErrArgument is an option or an event that makes no sense. errors.Is(err, ErrArgument{}) matches any.
type ErrArgument struct {
	Name string // of the option, or of the event and its place
	What string // is wrong, and what to do
}

func (e ErrArgument) Error() string { return "pubsub: " + e.Name + ": " + e.What }

// Is matches the same error and the zero value.
func (e ErrArgument) Is(target error) bool {
	t, ok := target.(ErrArgument)
	return ok && (t == e || t == ErrArgument{})
}

func argument(name, format string, args ...any) error {
	return ErrArgument{name, fmt.Sprintf(format, args...)}
}

// ErrWaiting is a Next whose context ended. It unwraps to the error of the context.
type ErrWaiting struct {
	Err  error // of the context
	Last error // why there is no connection, or no replay; nil: there was nothing to receive
}

func (e ErrWaiting) Error() string {
	if e.Last == nil {
		return fmt.Sprintf("pubsub: no message: %v", e.Err)
	}
	return fmt.Sprintf("pubsub: no message: %v; the publisher is not reached: %v", e.Err, e.Last)
}

func (e ErrWaiting) Unwrap() error { return e.Err }
