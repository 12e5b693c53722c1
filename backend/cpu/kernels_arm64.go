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
	k.withExact = k.withExactMix()
	return []*kernels{&k}
}

// inVectors reports whether rows are such that there is assembly for them.
func (s *stored) inVectors() bool { return s.dim%16 == 0 && len(s.data) > 0 }

// asF32 is rows that were decoded.
func (s *stored) asF32(decoded []float32) stored {
	return stored{dt: backend.F32, dim: s.dim, n: s.n, data: backend.BytesOf(decoded)}
}

// scoreGo and mixGo are for rows that there is no assembly for.

func scoreGo(dst []float32, stride int, q []float32, keys *stored, scratch []float32) {
	if keys.dt == backend.F32 {
		scoreF32(dst, stride, q, keys, scratch)
		return
	}
	scoreDecoded(dst, stride, q, keys, scratch)
}

func mixGo(acc, p []float32, stride, rows int, values *stored, scratch []float32) {
	if values.dt == backend.F32 {
		mixF32(acc, p, stride, rows, values, scratch)
		return
	}
	mixDecoded(acc, p, stride, rows, values, scratch)
}
