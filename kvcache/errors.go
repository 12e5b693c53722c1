package kvcache

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/compact"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/store"
	"github.com/ferrumkv/ferrumkv/kvcache/internal/text"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
)

// Errors without fields. Methods return them wrapped with details: compare with errors.Is.
var (
	// ErrClosed is a call on a pool, batch or cache after Close.
	ErrClosed = backend.ErrClosed
	// ErrReleased is a call on a sequence or Standalone cache after Release.
	ErrReleased = errors.New("already released")
	// ErrBusy is a call on a sequence while it is in a step that is neither committed nor reset, be it only queried there,
	// or in a call of another goroutine.
	ErrBusy = errors.New("sequence is part of an open step, or of a call that is not done; commit or reset the step first")
	// ErrSuspended is a call on a sequence that Suspend has taken off the device: Resume it first.
	ErrSuspended = errors.New("sequence is suspended; Resume it first")
	// ErrOtherPool is a sequence of another pool. A buffer or stream of another device
	// is a backend.ErrOtherDevice.
	ErrOtherPool = errors.New("sequence belongs to another pool")
)

// callError is what every error of this package's methods is: the call that the program made, and the cause, for
// errors.Is and errors.As.
type callError struct {
	call string // "Batch.Plan"
	err  error
}

func (e callError) Error() string {
	return "kvcache: " + e.call + ": " + strings.TrimPrefix(e.err.Error(), "kvcache: ")
}

func (e callError) Unwrap() error { return e.err }

// named is naming of an error that is passed on, for calls that are made for every layer.
func named(call string, err error) error {
	if err != nil {
		naming(call, &err)
	}
	return err
}

// refused is an argument that a package below refuses: both backend.ErrArgument, like all of this package's, and
// that package's own error.
type refused struct {
	backend.ErrArgument
	own error
}

func (e refused) Unwrap() []error { return []error{e.ErrArgument, e.own} }

// naming makes a callError of an error that a method is about to return. What it called by itself is not what the
// program called, and packages prefix and block, which know no backends, have types of their own for what a call does not
// accept.
func naming(call string, err *error) {
	if *err == nil {
		return
	}
	switch e := (*err).(type) {
	case callError:
		*err = e.err
	case prefix.ErrArgument:
		*err = refused{backend.ErrArgument{Package: "kvcache", What: e.Op + ": " + e.Why}, e}
	case block.ErrRange:
		*err = refused{backend.ErrArgument{Package: "kvcache", What: fmt.Sprintf("%s: have %d, need %d to %d", e.What, e.Have, e.Min, e.Max)}, e}
	}
	*err = callError{call, *err}
}

func argument(format string, args ...any) error {
	return backend.ErrArgument{Package: "kvcache", What: fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) error {
	return backend.ErrUnsupported{Package: "kvcache", Why: fmt.Sprintf(format, args...)}
}

// errNoStream is what a call with a nil stream returns.
var errNoStream = argument("the stream is nil; make one with NewStream of the backend")

// ErrOutOfBlocks is a lack of blocks: it says how many were needed and how many were available.
type ErrOutOfBlocks = block.ErrOutOfBlocks

// ErrCapacity is a sequence that would have more than Memory.Capacity tokens. With its field Positions it is a token at
// a position beyond Memory.Capacity: Retain dropped tokens and the others kept their positions. Retain with Reposition,
// or raise Capacity.
type ErrCapacity = backend.ErrCapacity

// ErrPrompt is an Add of other tokens than the rest of the prompt that the sequence was opened with.
type ErrPrompt = text.ErrPrompt

// ErrConfig is a setting that cannot be used: a field of Config or an environment variable.
type ErrConfig = backend.ErrConfig

// ErrStep is a call in the wrong order, such as Append before Plan.
type ErrStep struct{ Why string }

func (e ErrStep) Error() string { return "kvcache: " + e.Why }

// Is matches any ErrStep with errors.Is(err, ErrStep{}).
func (e ErrStep) Is(target error) bool {
	t, ok := target.(ErrStep)
	return ok && (t == e || t == ErrStep{})
}

// ErrResume is a length that a sequence cannot be cut to, because layers have given up what the next token reads
// there (Model.Groups): the tokens from At on have to be computed again.
type ErrResume struct {
	Tokens int        // the length that was asked for
	At     int        // the greatest length below it that is possible
	Group  group.Kind // of layers that cannot go on at a greater one
}

func (e ErrResume) Error() string {
	return fmt.Sprintf("kvcache: layers of a group of kind %v cannot go on after %d tokens; truncate to %d and compute the tokens from there on again", e.Group, e.Tokens, e.At)
}

// Is matches the same error and the zero value.
func (e ErrResume) Is(target error) bool {
	t, ok := target.(ErrResume)
	return ok && (t == e || t == ErrResume{})
}

// ErrDamaged is a Resume or Save of a suspended sequence whose bytes changed in host memory: release it, and compute its tokens again.
type ErrDamaged = store.ErrDamaged

// ErrGone is a Shift or Retain after which a query would see tokens that a window or chunk has given up.
type ErrGone = compact.ErrGone
