//go:build !noasm

package cpu

// productsNEON sets the kernels of tall tiles.
func (k *kernels) productsNEON() {
	k.gemm, k.transpose = gemm4NEON, transposer(transposeNEON)
}

// gemm4NEON takes 16 columns and four rows at a time.
func gemm4NEON(c matrix, shrink []float32, a, b matrix) {
	agree(&c, shrink, &a, &b)
	for j := 0; j < c.cols; j += 16 {
		for r := 0; r < c.rows; r += 4 {
			by := shrink[min(r, len(shrink)):]
			gemmNEON(&c.data[r*c.stride+j], c.stride, first(by), &a.data[r*a.stride], a.stride, &b.data[j], b.stride, min(c.rows-r, 4), a.cols)
		}
	}
}
