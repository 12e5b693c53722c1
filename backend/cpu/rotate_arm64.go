//go:build !noasm

package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// rotateNEON sets turn and hadamard to assembly.
func (k *kernels) rotateNEON() { k.turn, k.hadamard = turnNEON, transformNEON }

func turnNEON(x, angles []float32, pairing backend.Pairing, sign, magnitude float32) {
	angles = angles[:len(x)]
	if pairing == backend.Interleaved {
		n := len(x) &^ 7
		if n > 0 {
			turnPairsNEON(&x[0], &angles[0], n, sign, magnitude)
		}
		turnPairs(x[n:], angles[n:], 2, 1, sign, magnitude)
		return
	}
	gap := len(x) / 2
	n := gap &^ 3
	if n > 0 {
		turnHalvesNEON(&x[0], &angles[0], gap, n, sign, magnitude)
	}
	turnPairs(x[n:], angles[2*n:], 1, gap, sign, magnitude)
}

func transformNEON(rows []float32, dim int) {
	size := quant.HadamardSize(dim)
	if n := len(rows) / dim * dim; size >= 16 && n > 0 {
		hadamardNEON(&rows[0], size, n, float32(1/math.Sqrt(float64(size))))
		return
	}
	hadamard(rows, dim)
}
