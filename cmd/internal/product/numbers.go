package product

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
)

// numbers is a kernel's functions for a type of numbers that stay as they are stored, where it has some.
type numbers struct {
	// row sets out, [rowsOfNumbers], to the products of x with that many rows of weights, stride bytes apart, of vectors of lanes. It adds up
	// what tile and fold do, in the same order.
	row    func(out, x *float32, w *byte, stride, vectors int)
	decode func(out *float32, w *byte, vectors int)
}

// codesOfNumbers is their definitions.
var codesOfNumbers = [backend.NumDTypes]*Codes{backend.F32: number(0), backend.F16: number(1), backend.BF16: number(30)}

// number is a type of ggml's.
func number(of uint32) *Codes {
	t := ggml.Types[of]
	return &Codes{Name: t.Name, Block: t.Block, Bytes: t.Bytes, Decode: t.Decode}
}

// oneRow is some rows of weights that are numbers times one row of x.
func (m *Matrix) oneRow(tmp *codesRoom, x []float32, row, rows int) {
	for c := 0; c < rows; {
		taken, stride := rowsOfNumbers, m.codes.bytes(m.Cols)
		if c+taken > rows { // the last ones alone, as often as a kernel takes rows
			taken, stride = 1, 0
		}
		m.numbers.row(&tmp.one[0], &x[0], &m.data[(row+c)*m.codes.bytes(m.Cols)], stride, m.Cols/m.kernel.lanes)
		copy(tmp.out[c:], tmp.one[:taken])
		c += taken
	}
}
