//go:build !noasm

package cpu

// products sets the kernels of tall tiles.
func (k *kernels) products() {
	if k.name == "avx512" {
		k.gemm, k.transpose = gemmAVX512, transposer(transposeAVX512)
	} else {
		k.gemm, k.transpose = gemmAVX2, transposer(transposeAVX2)
	}
}

// gemmAVX512 takes 64 columns at a time; of the last 80, 48 and 32, as a block of 16 has
// too few sums to keep the multipliers busy.
func gemmAVX512(c matrix, shrink []float32, a, b matrix) {
	agree(&c, shrink, &a, &b)
	for j, width := 0, 0; j < c.cols; j += width {
		width = min(c.cols-j, 64)
		if c.cols-j == 80 {
			width = 48
		}
		to, with := &c.data[j], &b.data[j]
		switch width {
		case 64:
			gemm64AVX512(to, c.stride, first(shrink), &a.data[0], a.stride, with, b.stride, c.rows, a.cols)
		case 48:
			gemm48AVX512(to, c.stride, first(shrink), &a.data[0], a.stride, with, b.stride, c.rows, a.cols)
		case 32:
			gemm32AVX512(to, c.stride, first(shrink), &a.data[0], a.stride, with, b.stride, c.rows, a.cols)
		default:
			gemm16AVX512(to, c.stride, first(shrink), &a.data[0], a.stride, with, b.stride, c.rows, a.cols)
		}
	}
}

func gemmAVX2(c matrix, shrink []float32, a, b matrix) {
	agree(&c, shrink, &a, &b)
	for j := 0; j < c.cols; j += 16 {
		gemm16AVX2(&c.data[j], c.stride, first(shrink), &a.data[0], a.stride, &b.data[j], b.stride, c.rows, a.cols)
	}
}
