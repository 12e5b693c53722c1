package product

import (
	"encoding/binary"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// numbers is a kernel's functions for a type of numbers that stay as they are stored.
type numbers struct {
	// row sets out, [rowsOfNumbers], to the products of x with that many rows of weights, stride bytes apart, of vectors of lanes. It adds up
	// what tile and fold do, in the same order.
	row    func(out, x *float32, w *byte, stride, vectors int)
	decode func(out *float32, w *byte, vectors int)
}

// codesOfNumbers is the definitions of the types.
var codesOfNumbers = [backend.NumDTypes]*Codes{
	backend.F32:  {Name: "F32", Block: 1, Bytes: 4, Decode: func(dst []float32, src []byte) { dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(src)) }},
	backend.F16:  {Name: "F16", Block: 1, Bytes: 2, Decode: func(dst []float32, src []byte) { dst[0] = quant.FromF16(binary.LittleEndian.Uint16(src)) }},
	backend.BF16: {Name: "BF16", Block: 1, Bytes: 2, Decode: func(dst []float32, src []byte) { dst[0] = quant.FromBF16(binary.LittleEndian.Uint16(src)) }},
}

// oneRow is some rows of weights that are numbers times one row of x.
func (m *Matrix) oneRow(tmp *codesRoom, x []float32, row, rows int) {
	for c := 0; c < rows; {
		taken, stride := m.group(c, rows, rowsOfNumbers)
		m.numbers.row(&tmp.one[0], &x[0], &m.data[(row+c)*m.codes.bytes(m.Cols)], stride, m.Cols/m.kernel.lanes)
		copy(tmp.out[c:], tmp.one[:taken])
		c += taken
	}
}
