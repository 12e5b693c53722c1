package plan

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// Kind is a kind of attention kernel. The rows of a sequence, its queries times the
// heads of a group, are cut into tiles of as many rows as its kind takes at once.
type Kind int

// The kinds, in the order in which the work of a plan has them.
const (
	Vector  Kind = iota // a row or a few, one product after another
	Decode              // one tile of a matrix unit
	Prefill             // several tiles of a matrix unit; not for f32
	Kinds
)

var tileRows = [Kinds]int{Vector: abi.VectorRows, Decode: abi.DecodeRows, Prefill: abi.PrefillRows}

// Cache is what kernels of attention differ by, but for dims.
type Cache struct {
	backend.Format
	Latent bool
}

// Has reports whether there are kernels of a kind. Codes are always multiplied by matrix units where activations
// have 16 bits: making elements of them is work enough. The long keys of latent caches leave room for one tile of rows.
func (c Cache) Has(k Kind) bool {
	switch {
	case c.Latent:
		return k == Decode
	case k == Vector:
		return c.Act == backend.F32 || !c.K.Quantized()
	case k == Prefill:
		return c.Act != backend.F32
	}
	return true
}

// KindOf is the kind for the rows of a sequence. Matrix units take 16-bit
// activations, and pay from four rows on.
func (c Cache) KindOf(rows int) Kind {
	switch {
	case c.Latent:
		return Decode
	case c.Act == backend.F32 && rows <= abi.VectorRows, rows < abi.VectorRows && c.Has(Vector):
		return Vector
	case c.Act == backend.F32 || rows <= abi.DecodeRows:
		return Decode
	}
	return Prefill
}

// largest is the kind with the largest tiles.
func (c Cache) largest() Kind {
	if c.Has(Prefill) {
		return Prefill
	}
	return Decode
}

// cacheOf is that of a shape.
func cacheOf(s *backend.AttendShape) Cache { return Cache{s.Format, s.Latent} }
