//go:build !noasm

package cpu

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// native is the kernels of kernels/asm/arm64: every processor of this architecture has NEON.
func native() []*kernels {
	k := portable
	k.name, k.exact = "neon", false
	k.decodeNEON()
	k.scoreNEON()
	k.scoreCodesNEON()
	k.mixNEON()
	k.productsNEON()
	k.weigh = weighNEON
	k.careful = k.carefully()
	return []*kernels{&k}
}

// next is what a kernel fetches while it reads rows: what is wanted next, or, where that is
// unknown, what it has anyway.
func (s *stored) next() *byte {
	if s.ahead != nil {
		return s.ahead
	}
	return &s.data[0]
}

// inVectors reports whether rows are such that there is assembly for them.
func (s *stored) inVectors() bool { return s.dim%16 == 0 && len(s.data) > 0 }

// group is how many elements of a row share a scale.
func (s *stored) group() int {
	if a, _ := quant.AffineOf(s.dt); a.Group > 0 {
		return a.Group
	}
	return s.dim
}

// asF32 is rows that were decoded.
func (s *stored) asF32(decoded []float32) stored {
	return stored{dt: backend.F32, dim: s.dim, data: backend.BytesOf(decoded)}
}
