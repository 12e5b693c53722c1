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

// Has reports whether there are kernels of a kind for an activation type.
func Has(k Kind, act backend.DType) bool { return k != Prefill || act != backend.F32 }

// kindOf is the kind for the rows of a sequence. Matrix units take 16-bit
// activations, and pay from four rows on.
func kindOf(act backend.DType, rows int) Kind {
	switch {
	case act == backend.F32 && rows <= abi.VectorRows, rows < abi.VectorRows:
		return Vector
	case act == backend.F32 || rows <= abi.DecodeRows:
		return Decode
	}
	return Prefill
}

// largest is the kind with the largest tiles.
func largest(act backend.DType) Kind {
	if Has(Prefill, act) {
		return Prefill
	}
	return Decode
}
