//go:build !noasm

package cpu

import (
	"golang.org/x/sys/cpu"

	"github.com/ferrumkv/ferrumkv/backend"
)

// codesKernel is scoreInt8 for up to four rows; sums are those of their codes, where groups
// of keys have a zero point.
type codesKernel func(dst *float32, stride int, q *byte, scales *uint32, sums *int32, rows int, keys *byte, words *uint32, n int, dim int, group int, ahead *byte)

// scoreCodesNEON sets scoreInt8 to the fastest assembly that this processor runs.
func (k *kernels) scoreCodesNEON() {
	if cpu.ARM64.HasASIMDDP {
		k.scoreCodesWith(scoreInt8ByDotProd, scoreInt8AsymByDotProd, scoreInt4ByDotProd)
	} else {
		k.scoreCodesWith(scoreInt8ByNEON, scoreInt8AsymByNEON, scoreInt4ByNEON)
	}
}

// scoreCodesWith sets scoreInt8 to three kernels; that for signed codes needs no sums.
func (k *kernels) scoreCodesWith(plain func(dst *float32, stride int, q *byte, scales *uint32, rows int, keys *byte, words *uint32, n int, dim int, group int, ahead *byte), asym, int4 codesKernel) {
	signed := codesKernel(func(dst *float32, stride int, q *byte, scales *uint32, _ *int32, rows int, keys *byte, words *uint32, n int, dim int, group int, ahead *byte) {
		plain(dst, stride, q, scales, rows, keys, words, n, dim, group, ahead)
	}).each()
	k.scoreInt8 = perCode[scoringInt8]{signed8: signed, unsigned8: asym.each(), unsigned4: int4.each(), wide4: int4.each(), float4: scoreInt8Go}.table()
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
		n, dim, groups, ahead := keys.n, keys.dim, keys.dt.ScaleWords(keys.dim), keys.next()
		words, sums := keys.scales[:n*groups], of[int32](backend.BytesOf(w.pairs))[:4*groups]
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
