//go:build !noasm

package cpu

import "fmt"

// products sets the kernels of tall tiles.
func (k *kernels) products() {
	if k.name == "avx512" {
		k.gemm, k.transpose = gemmAVX512, transposer(transposeAVX512)
	} else {
		k.gemm, k.transpose = gemmAVX2, transposer(transposeAVX2)
	}
}

// agree panics where c is not what a·b may be added to.
func agree(c *matrix, shrink []float32, a, b *matrix) {
	c.within()
	a.within()
	b.within()
	if a.rows != c.rows || b.rows != a.cols || b.cols != c.cols || c.cols%16 != 0 || shrink != nil && len(shrink) < c.rows {
		panic(fmt.Sprintf("cpu: product of %dx%d and %dx%d for %dx%d, factors for %d rows", a.rows, a.cols, b.rows, b.cols, c.rows, c.cols, len(shrink)))
	}
}

// first is where a slice begins, nil for none.
func first(x []float32) *float32 {
	if len(x) == 0 {
		return nil
	}
	return &x[0]
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

// transposer is kernels.transpose by a function for 16 rows, back to back.
func transposer(rows func(dst *float32, stride int, src *float32, cols int)) func(dst, src matrix) {
	return func(dst, src matrix) {
		dst.within()
		src.within()
		if dst.rows != src.cols || dst.cols != src.rows || src.rows%16 != 0 || src.cols%16 != 0 || src.stride != src.cols {
			panic(fmt.Sprintf("cpu: transpose of %dx%d, stride %d, to %dx%d", src.rows, src.cols, src.stride, dst.rows, dst.cols))
		}
		for i := 0; i < src.rows; i += 16 {
			rows(&dst.data[i], dst.stride, &src.data[i*src.stride], src.cols)
		}
	}
}
