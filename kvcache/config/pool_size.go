package config

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// ErrPoolSize is a pool that is too large for its device, found before anything was
// allocated. It matches backend.ErrOutOfMemory{} with errors.Is; errors.Is(err,
// ErrPoolSize{}) matches any ErrPoolSize.
type ErrPoolSize struct {
	// Bytes is the size of the pool, and Max what is free on the device. With Layer, Bytes is
	// the size of the keys or values of one layer, and Max the largest buffer of the device.
	Bytes, Max int64
	Layer      bool
	Blocks     int // that were asked for: Blocks, or MaxSeqs where Contiguous
	MaxBlocks  int // that would fit
	Contiguous bool
	Recent     bool // the limit concerns the unquantized blocks of Storage.Residual
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
		what, e.Bytes, e.Max, limit, e.MaxBlocks, e.Blocks, size, backend.ErrOutOfMemory{})
}

// Is matches backend.ErrOutOfMemory, and any ErrPoolSize with ErrPoolSize{}.
func (e ErrPoolSize) Is(target error) bool {
	t, ok := target.(ErrPoolSize)
	return target == backend.ErrOutOfMemory{} || ok && (t == e || t == ErrPoolSize{})
}
