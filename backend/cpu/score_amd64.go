//go:build !noasm

package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// scorer is an assembly function that sets dst[r*stride+j] to the product of query row r, of at most
// scoreRowsMost, and key j, of at least scoreKeysLeast that are row bytes apart. It fetches as many
// bytes as it reads of keys from ahead on.
type scorer func(dst *float32, stride, rows, n int, q *float32, dim int, keys *byte, row int, ahead *byte)

const (
	scoreRowsMost  = 4
	scoreKeysLeast = 4
)

// scorersOf is the assembly of each tier.
var scorersOf = map[string]map[backend.DType]scorer{
	"avx512": {backend.F32: scoreF32AVX512, backend.F16: scoreF16AVX512, backend.BF16: scoreBF16AVX512},
	"avx2":   {backend.F32: scoreF32AVX2, backend.F16: scoreF16AVX2, backend.BF16: scoreBF16AVX2},
}

// scores sets score to that of k's tier.
func (k *kernels) scores() {
	for dt, by := range scorersOf[k.name] {
		k.score[dt] = scoring(by)
	}
}

// scoring is kernels.score by an assembly function.
func scoring(by scorer) func(dst []float32, stride int, q []float32, keys stored, scratch []float32) {
	return func(dst []float32, stride int, q []float32, keys stored, scratch []float32) {
		dim := keys.dim
		if dim%unit != 0 {
			portable.score[keys.dt](dst, stride, q, keys, scratch)
			return
		}
		n, rows := keys.rows(), len(q)/dim
		if n == 0 || rows == 0 {
			return
		}
		row := dim * keys.dt.Bits() / 8
		_, _ = dst[(rows-1)*stride+n-1], keys.data[n*row-1]
		ahead := keys.ahead
		if ahead == nil {
			ahead = &keys.data[0]
		}
		for r := 0; r < rows; r += scoreRowsMost {
			some := min(scoreRowsMost, rows-r)
			if n >= scoreKeysLeast {
				by(&dst[r*stride], stride, some, n, &q[r*dim], dim, &keys.data[0], row, ahead)
				ahead = &keys.data[0] // once is enough
				continue
			}
			for j := range n { // as if it were all of them
				same := scratch[:scoreRowsMost*scoreKeysLeast]
				by(&same[0], scoreKeysLeast, some, scoreKeysLeast, &q[r*dim], dim, &keys.data[j*row], 0, ahead)
				for i := range some {
					dst[(r+i)*stride+j] = same[i*scoreKeysLeast]
				}
			}
		}
	}
}
