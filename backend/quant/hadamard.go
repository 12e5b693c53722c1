package quant

import "math"

// HadamardSize is the size of the blocks that Hadamard transforms: the largest power of two that
// divides dim.
func HadamardSize(dim int) int { return dim & -dim }

// Hadamard multiplies a row with the orthonormal Walsh-Hadamard matrix, block by block (see
// HadamardSize). It is its own inverse and keeps the dot product of two transformed rows. It
// spreads a large element over its block, so that groups have smaller ranges (QuIP#,
// arXiv:2402.04396; QuaRot, arXiv:2404.00456).
func Hadamard(x []float32) {
	size := HadamardSize(len(x))
	if size < 2 {
		return
	}
	shrink := float32(1 / math.Sqrt(float64(size)))
	for ; len(x) > 0; x = x[size:] {
		block := x[:size]
		for apart := 1; apart < size; apart *= 2 {
			for i := 0; i < size; i += 2 * apart {
				low, high := block[i:i+apart], block[i+apart:][:apart]
				for j, a := range low {
					b := high[j]
					low[j], high[j] = a+b, a-b
				}
			}
		}
		for i := range block {
			block[i] *= shrink
		}
	}
}
