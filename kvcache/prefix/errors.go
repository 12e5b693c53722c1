package prefix

import (
	"errors"
	"fmt"
)

// Sentinel errors. Compare with errors.Is.
var (
	// ErrDetached is a block that is not in the tree, or not any more after Forget or Clear.
	// No block can be inserted after it.
	ErrDetached = errors.New("prefix: block is not in the tree")
	// ErrLeaseEnded is a lease that was released before or has expired.
	ErrLeaseEnded = errors.New("prefix: lease was released or has expired")
	// ErrCorrupt is what Check finds: a bug in this package, or a tree whose
	// changes were not guarded.
	ErrCorrupt = errors.New("prefix: tree is corrupt")
)

// ErrInUse is Clear of a tree while blocks are held.
type ErrInUse struct{ Blocks int }

func (e ErrInUse) Error() string {
	return fmt.Sprintf("prefix: %d cached blocks are in use; release their sequences and leases, or clear by force", e.Blocks)
}

// Is matches the same error and the zero value.
func (e ErrInUse) Is(target error) bool {
	t, ok := target.(ErrInUse)
	return ok && (t == e || t == ErrInUse{})
}

// ErrArgument is an argument that a call does not accept. errors.Is(err,
// ErrArgument{}) matches any.
type ErrArgument struct{ Op, Why string }

func (e ErrArgument) Error() string { return fmt.Sprintf("prefix: %s: %s", e.Op, e.Why) }

// Is matches the same error and the zero value.
func (e ErrArgument) Is(target error) bool {
	t, ok := target.(ErrArgument)
	return ok && (t == e || t == ErrArgument{})
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
