//go:build !noasm

package cpu

import (
	"math"

	"golang.org/x/sys/cpu"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// codesKernel is scoreInt8 for up to four rows; sums are those of their codes, where groups
// of keys have a zero point.
type codesKernel func(dst *float32, stride int, q *byte, scales *uint32, sums *int32, rows int, keys *byte, words *uint32, n int, dim int, group int, ahead *byte)

// scoreCodesNEON sets scoreInt8 to the fastest assembly that this processor runs.
func (k *kernels) scoreCodesNEON() {
	if cpu.ARM64.HasASIMDDP {
		k.scoreCodesWith(scoreInt8ByDotProd, scoreE2M1ByDotProd, scoreInt8AsymByDotProd, scoreInt4ByDotProd)
	} else {
		k.scoreCodesWith(scoreInt8ByNEON, scoreE2M1ByNEON, scoreInt8AsymByNEON, scoreInt4ByNEON)
	}
}

// plainKernel is a codesKernel of codes with a sign, which needs no sums.
type plainKernel func(dst *float32, stride int, q *byte, scales *uint32, rows int, keys *byte, words *uint32, n int, dim int, group int, ahead *byte)

func (plain plainKernel) each() scoringInt8 {
	return codesKernel(func(dst *float32, stride int, q *byte, scales *uint32, _ *int32, rows int, keys *byte, words *uint32, n int, dim int, group int, ahead *byte) {
		plain(dst, stride, q, scales, rows, keys, words, n, dim, group, ahead)
	}).each()
}

// scoreCodesWith sets scoreInt8 to four kernels.
func (k *kernels) scoreCodesWith(signed, float4 plainKernel, asym, int4 codesKernel) {
	k.scoreInt8 = perCode[scoringInt8]{signed8: signed.each(), unsigned8: asym.each(), unsigned4: int4.each(), wide4: int4.each(), float4: float4.each()}.table()
}

// Groups that are so long that a group's integer may be beyond 32 bits are left to Go: one
// that is the sum of products of codes, and one with a zero point, of 16 bits, times the sum of
// a query's codes.
const longestPlain, longestWithZero = 1 << 16, 1 << 8

// each scores four rows after another, as scoreWith does, run by run.
func (kernel codesKernel) each() scoringInt8 {
	return scoreCodes(func(dst []float32, stride int, q stored, keys *stored, w *integers) {
		group, zeros := keys.group(), keys.dt.Coding().Scale == backend.StepZero
		if !keys.inVectors() || group > longestPlain || zeros && group > longestWithZero {
			scoreCodesGo(dst, stride, q, keys, w)
			return
		}
		n, dim, groups, ahead := keys.n, keys.dim, ceilDiv(keys.dim, group), keys.next()
		words, sums := keys.scales, of[int32](backend.BytesOf(w.pairs))[:4*groups]
		if keys.dt.Coding().Scale == backend.Exponents {
			words = of[uint32](w.codes)
			halfPowers(words, keys)
		}
		words = words[:n*groups]
		for r, rows := 0, q.n; r < rows; r += 4 {
			some := min(rows-r, 4)
			_, _ = dst[(r+some-1)*stride+n-1], q.scales[r+some-1]
			if zeros {
				sumInt8NEON(&sums[0], &q.data[r*dim], some, dim, group)
			}
			kernel(&dst[r*stride], stride, &q.data[r*dim], &q.scales[r], &sums[0], some, &keys.data[0], &words[0], n, dim, group, ahead)
			ahead = &keys.data[0]
		}
	}).each()
}

// halfPowers sets dst to half of what each group's exponent stands for, row by row: of such steps codes of
// E2M1 have a whole number.
func halfPowers(dst []uint32, keys *stored) {
	words, groups := keys.dt.ScaleWords(keys.dim), ceilDiv(keys.dim, keys.group())
	for row := range keys.n {
		of := keys.scales[row*words:][:words]
		for i := range groups {
			dst[row*groups+i] = math.Float32bits(0.5 * quant.ScaleMX(quant.Exponent(of, i)))
		}
	}
}
