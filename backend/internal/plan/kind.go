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
	Wide                // of warpgroups, on devices that have them; not for f32 and codes
	Kinds
)

var mostRows = [Kinds]int{Vector: abi.VectorRows, Decode: abi.DecodeRows, Prefill: abi.PrefillRows, Wide: abi.WideRows}

// Cache is what kernels of attention differ by, but for dims.
type Cache struct {
	backend.Format
	Latent bool
	Wide   bool // the device has the kernel of that kind
}

// tileRows is the most rows that a tile of a kind has.
func (c Cache) tileRows(k Kind) int {
	if c.Latent && k == Wide {
		return abi.WideLatentRows
	}
	return mostRows[k]
}

// narrow is the most rows of a sequence that are not of kind Wide, where the device has it: those of one tile of another kind.
func (c Cache) narrow() int {
	if c.Latent {
		return abi.DecodeRows
	}
	return abi.PrefillRows
}

// Has reports whether there are kernels of a kind. Codes are always multiplied by matrix units where activations
// have 16 bits: making elements of them is work enough. The long keys of latent caches leave room for one tile
// of rows, but in registers of a warpgroup.
func (c Cache) Has(k Kind) bool {
	switch {
	case k == Wide:
		return c.Wide
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
	case c.Wide && rows > c.narrow():
		return Wide
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
	for k := Wide; k > Decode; k-- {
		if c.Has(k) {
			return k
		}
	}
	return Decode
}

// MayBeWide reports whether there may be a kernel of kind Wide for a format.
func MayBeWide(f backend.Format) bool { return f.Act != backend.F32 && f.K == f.Act && f.V == f.Act }

// cacheOf is that of a shape.
func cacheOf(s *backend.AttendShape, wide bool) Cache { return Cache{s.Format, s.Latent, wide} }
