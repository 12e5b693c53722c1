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

// Has reports whether there are kernels of a kind for a format. Codes are always multiplied by
// matrix units where activations have 16 bits: making elements of them is work enough.
func Has(k Kind, f backend.Format) bool {
	switch k {
	case Vector:
		return f.Act == backend.F32 || !f.K.Quantized()
	case Prefill:
		return f.Act != backend.F32
	}
	return true
}

// KindOf is the kind for the rows of a sequence. Matrix units take 16-bit
// activations, and pay from four rows on.
func KindOf(f backend.Format, rows int) Kind {
	switch {
	case f.Act == backend.F32 && rows <= abi.VectorRows, rows < abi.VectorRows && Has(Vector, f):
		return Vector
	case f.Act == backend.F32 || rows <= abi.DecodeRows:
		return Decode
	}
	return Prefill
}

// largest is the kind with the largest tiles.
func largest(f backend.Format) Kind {
	if Has(Prefill, f) {
		return Prefill
	}
	return Decode
}
