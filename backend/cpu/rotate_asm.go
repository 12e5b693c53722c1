//go:build !noasm && (amd64 || arm64)

package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// rotators is the assembly of a tier that turns rows.
type rotators struct {
	lanes     int // pairs that halves takes, or a multiple
	elements  int // that pairs takes, or a multiple
	halves    func(x, angles *float32, gap, n int, sign, magnitude float32)
	pairs     func(x, angles *float32, n int, sign, magnitude float32)
	transform func(x *float32, size, n int, shrink float32)
}

func (r *rotators) turn(rows []float32, dim int, angles []float32, pairing backend.Pairing, sign, magnitude float32) {
	size := r.elements
	if pairing == backend.HalfSplit {
		size = 2 * r.lanes
	}
	n := len(angles) &^ (size - 1) // elements that assembly takes
	if n == 0 {
		turnGo(rows, dim, angles, pairing, sign, magnitude)
		return
	}
	gap := len(angles) / 2
	for ; len(rows) > 0; rows = rows[dim:] {
		x := rows[:len(angles)]
		if pairing == backend.Interleaved {
			r.pairs(&x[0], &angles[0], n, sign, magnitude)
			turnPairs(x[n:], angles[n:], 2, 1, sign, magnitude)
		} else {
			r.halves(&x[0], &angles[0], gap, n/2, sign, magnitude)
			turnPairs(x[n/2:], angles[n:], 1, gap, sign, magnitude)
		}
	}
}

func (r *rotators) hadamard(rows []float32, dim int) {
	size := quant.HadamardSize(dim)
	if n := len(rows) / dim * dim; size >= 16 && n > 0 {
		r.transform(&rows[0], size, n, float32(1/math.Sqrt(float64(size))))
		return
	}
	hadamard(rows, dim)
}
