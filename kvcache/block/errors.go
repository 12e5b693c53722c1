package block

import (
	"errors"
	"fmt"
)

// Sentinel errors, wrapped in an ErrBlock with the handle. Compare with errors.Is.
var (
	ErrUnknown    = errors.New("not a block of this allocator")
	ErrStale      = errors.New("the handle is stale: the block has been handed out again since")
	ErrDoubleFree = errors.New("the block has no owner: it was released twice")
	ErrNotHeld    = errors.New("the block has no owner: only a held block can be retained, a cached one must be taken")
	ErrNotCached  = errors.New("the block is not cached: it has an owner or no valid content")
	ErrOwners     = errors.New("the block has as many owners as can be counted")
)

// ErrCorrupt is what Check finds: a bug in this package, or an allocator used by
// two goroutines at once.
var ErrCorrupt = errors.New("block: allocator is corrupt")

// ErrBlock is a handle that an operation does not accept. Why is one of the sentinel errors.
type ErrBlock struct {
	Op    string // "release"
	Block Block
	Why   error
}

func (e ErrBlock) Error() string {
	return fmt.Sprintf("block: %s block %d of generation %d: %v", e.Op, e.Block.ID, e.Block.Gen, e.Why)
}
func (e ErrBlock) Unwrap() error { return e.Why }

// ErrOutOfBlocks is a request for more blocks than its caller can get. Nothing
// was taken. errors.Is(err, ErrOutOfBlocks{}) matches any.
type ErrOutOfBlocks struct {
	Need int // blocks asked for
	Free int // blocks that were available to this caller, cached ones included
}

func (e ErrOutOfBlocks) Error() string {
	return fmt.Sprintf("block: out of blocks: need %d, %d available; release some, or use a larger pool", e.Need, e.Free)
}

// Is matches the same error and the zero value.
func (e ErrOutOfBlocks) Is(target error) bool {
	t, ok := target.(ErrOutOfBlocks)
	return ok && (t == e || t == ErrOutOfBlocks{})
}

// ErrRange is a number outside of what the call accepts. errors.Is(err,
// ErrRange{}) matches any.
type ErrRange struct {
	What           string // "blocks"
	Have, Min, Max int
}

func (e ErrRange) Error() string {
	return fmt.Sprintf("block: %s: have %d, need %d to %d", e.What, e.Have, e.Min, e.Max)
}

// Is matches the same error and the zero value.
func (e ErrRange) Is(target error) bool {
	t, ok := target.(ErrRange)
	return ok && (t == e || t == ErrRange{})
}
