package backendtest

import (
	"math"
	"math/bits"
)

// hadamard multiplies a row with the Walsh-Hadamard matrix by its definition: block by
// block, element (i, j) being −1 to the number of bits that i and j share, over the
// root of the size.
func hadamard(row []float64) []float64 {
	size := 1
	for len(row)%(2*size) == 0 {
		size *= 2
	}
	out := make([]float64, len(row))
	for i := range out {
		first := i / size * size
		for j, v := range row[first : first+size] {
			if bits.OnesCount(uint((i-first)&j))%2 == 1 {
				v = -v
			}
			out[i] += v / math.Sqrt(float64(size))
		}
	}
	return out
}
