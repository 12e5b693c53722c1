//go:build !noasm

package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// native is the kernels of kernels/asm/arm64: every processor of this architecture has NEON.
func native() []*kernels {
	k := portable
	k.name, k.exact = "neon", false
	k.convertNEON()
	k.quantizeNEON()
	k.rotateNEON()
	k.scoreNEON()
	k.scoreCodesNEON()
	k.mixNEON()
	k.productsNEON()
	k.weigh, k.softcap = weighNEON, capNEON
	k.careful = k.carefully()
	return []*kernels{&k}
}

// inVectors reports whether rows are such that there is assembly for them.
func (s *stored) inVectors() bool { return s.dim%16 == 0 && len(s.data) > 0 }

// asF32 is rows that were decoded.
func (s *stored) asF32(decoded []float32) stored {
	return stored{dt: backend.F32, dim: s.dim, n: s.n, data: backend.BytesOf(decoded)}
}
