package launch

import (
	"math/bits"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/internal/abi"
)

// constant is the bit of a function constant, 0 where it is false.
func constant(i int, v bool) uint32 {
	if !v {
		return 0
	}
	return 1 << i
}

// with is the bit of a function constant that says whether an operand is there.
func with(i int, operand Place) uint32 { return constant(i, operand != Place{}) }

// perRun is the elements of a run that fills 16 bytes of the narrower of two types: a power of
// two, found without a division, which would take as long as all the rest of a call's constants.
func perRun(a, b backend.DType) int64 {
	return vectorBytes >> bits.TrailingZeros64(uint64(min(elementSize(a), elementSize(b))))
}

// wideAt is the bit of abi.Wide for bytes: the places are aligned to 16. An absent one is.
func wideAt(places ...Place) uint32 {
	var at uint64
	for _, p := range places {
		at |= p.At
	}
	return constant(abi.Wide, at%vectorBytes == 0)
}

// wide is the bit of abi.Wide for rows of types a and b: elements, the bits of all their
// lengths and strides in one, are a multiple of a run, and the rows are aligned. CUDA
// kernels find the same by themselves.
func wide(a, b backend.DType, elements int64, rows ...Place) uint32 {
	if elements&(perRun(a, b)-1) != 0 {
		return 0
	}
	return wideAt(rows...)
}
