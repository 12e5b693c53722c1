package config

import (
	"cmp"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/internal/bytesize"
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

	lower string // the settings or variables that made it so large
}

func (e ErrPoolSize) Error() string {
	what, limit := "a pool", "free"
	if e.Layer {
		what, limit = "a layer's buffer", "the device's largest"
	}
	size, lower := "blocks", cmp.Or(e.lower, "Memory.Blocks")
	if e.Contiguous {
		size, lower = "sequences", cmp.Or(e.lower, "Memory.MaxSeqs or Memory.Capacity")
	}
	if e.Recent {
		size, lower = "blocks of recent tokens", "Memory.MaxSeqs, Storage.Residual or Memory.StepTokens"
	}
	return fmt.Sprintf("kvcache: %s of %s does not fit, %s are %s: at most %d of %d %s; lower %s, or store K and V in fewer bits: %v",
		what, bytesize.String(e.Bytes), bytesize.String(e.Max), limit, e.MaxBlocks, e.Blocks, size, lower, backend.ErrOutOfMemory{})
}

// Is matches backend.ErrOutOfMemory, and any ErrPoolSize with ErrPoolSize{}.
func (e ErrPoolSize) Is(target error) bool {
	t, ok := target.(ErrPoolSize)
	t.lower, e.lower = "", ""
	return target == backend.ErrOutOfMemory{} || ok && (t == e || t == ErrPoolSize{})
}
