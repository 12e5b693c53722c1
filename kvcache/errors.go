package kvcache

import (
	"errors"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
)

// Sentinels, wrapped with what was asked for. Compare with errors.Is.
var (
	// ErrClosed is a closed pool, batch or cache.
	ErrClosed = backend.ErrClosed
	// ErrReleased is a sequence that was given back.
	ErrReleased = errors.New("already released")
	// ErrBusy is a sequence that was added to a step which is neither committed nor reset.
	ErrBusy = errors.New("sequence is part of an open step; commit or reset the step first")
	// ErrForeign is a sequence of another pool. A buffer or stream of another device
	// is a backend.ErrForeign.
	ErrForeign = errors.New("sequence belongs to another pool")
)

// ErrOutOfBlocks says how many blocks were needed and how many could be had. It comes wrapped
// with the call that needed them: see errors.As.
type ErrOutOfBlocks = block.ErrOutOfBlocks

// ErrCapacity is a sequence that would become longer than it may.
type ErrCapacity = backend.ErrCapacity

// ErrConfig is a setting that cannot be used: a field of Config or an environment variable.
type ErrConfig = backend.ErrConfig

// lacking names the call that lacks blocks.
func lacking(op string, err error) error {
	if errors.Is(err, ErrOutOfBlocks{}) {
		return fmt.Errorf("kvcache: %s: %w", op, err)
	}
	return err
}

// ErrPosition is a token whose position the rotary embedding does not reach: tokens before
// it were dropped, and those that stayed kept their positions.
type ErrPosition struct {
	Position int // of the last token
	Max      int // positions there are: Config.Capacity
}

func (e ErrPosition) Error() string {
	return fmt.Sprintf("kvcache: position %d is beyond the %d of the rotary embedding; Keep with Reposition, or raise Capacity", e.Position, e.Max)
}

// Is matches any ErrPosition with errors.Is(err, ErrPosition{}).
func (e ErrPosition) Is(target error) bool {
	t, ok := target.(ErrPosition)
	return ok && (t == e || t == ErrPosition{})
}

// ErrPoolSize is a pool that its device cannot hold, found before anything of it was
// allocated. errors.Is(err, backend.ErrOutOfMemory) holds, and errors.Is(err,
// ErrPoolSize{}) matches any.
type ErrPoolSize struct {
	// Bytes of the pool, and Max of them free on the device. With Layer, bytes of the
	// keys or values of one layer, and of the largest buffer that the device has.
	Bytes, Max int64
	Layer      bool
	Blocks     int // that the pool was to have: Blocks, or MaxSeqs where Contiguous
	MaxBlocks  int // that would fit
	Contiguous bool
	Recent     bool // it is about the blocks of recent tokens, of which Config.Residual says how many there are
}

func (e ErrPoolSize) Error() string {
	what, limit := "a pool", "free"
	if e.Layer {
		what, limit = "a layer's buffer", "the device's largest"
	}
	size := "blocks; lower Blocks"
	if e.Contiguous {
		size = "sequences; lower MaxSeqs or Capacity"
	}
	if e.Recent {
		size = "blocks of recent tokens; lower MaxSeqs, Residual or StepTokens"
	}
	return fmt.Sprintf("kvcache: %s of %d bytes does not fit, %d are %s: at most %d of %d %s, or store K and V in fewer bits: %v",
		what, e.Bytes, e.Max, limit, e.MaxBlocks, e.Blocks, size, backend.ErrOutOfMemory)
}

// Is matches backend.ErrOutOfMemory, and any ErrPoolSize with ErrPoolSize{}.
func (e ErrPoolSize) Is(target error) bool {
	t, ok := target.(ErrPoolSize)
	return target == backend.ErrOutOfMemory || ok && (t == e || t == ErrPoolSize{})
}

// ErrStep is a call that does not fit the state of a step: Append before Plan.
type ErrStep struct{ Op, Why string }

func (e ErrStep) Error() string { return fmt.Sprintf("kvcache: %s: %s", e.Op, e.Why) }

// Is matches any ErrStep with errors.Is(err, ErrStep{}).
func (e ErrStep) Is(target error) bool {
	t, ok := target.(ErrStep)
	return ok && (t == e || t == ErrStep{})
}

func errNoStream(op string) error {
	return backend.ErrShape{Package: "kvcache", Op: op, What: "the stream is nil; make one with NewStream of the backend"}
}
