package product

import (
	"fmt"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Codes is how a type stores the weights of a row: blocks of some weights, each in some bytes, that Decode turns into numbers. A kernel
// may have functions of its own for a type of this name, as ggml calls it, that give the same numbers.
type Codes struct {
	Name         string
	Block, Bytes int
	Decode       func(dst []float32, src []byte)
	// Scale is what the numbers of the block at a row and a column are multiplied by, of types whose scales are not in their blocks; nil: 1.
	Scale func(row, col int) float32
}

// bytes is those of a row's first cols weights.
func (c *Codes) bytes(cols int) int { return cols / c.Block * c.Bytes }

// PackCodes is the weights data [rows, cols/Block, Bytes], which it retains and reads where it is, at any address: they are decoded
// whenever they are multiplied by. cols is a multiple of Block, which is a power of two, at most 512.
//
// A kernel has a number of lanes: lane l adds up the products of columns l, l+lanes, l+2·lanes and so on, and then the lanes are
// added. So a result has the same bits for all types that store the same weights, whatever is computed beside it.
func PackCodes(codes Codes, rows, cols int, data []byte) *Matrix {
	return packCodes(chosen(), codes, rows, cols, data)
}

func packCodes(k *kernel, codes Codes, rows, cols int, data []byte) *Matrix {
	if rows < 1 || cols < 1 || columns%codes.Block != 0 || cols%codes.Block != 0 || len(data) != rows*codes.bytes(cols) {
		panic(fmt.Sprintf("product: a matrix of %dx%d in %d bytes, in blocks of %d in %d bytes", rows, cols, len(data), codes.Block, codes.Bytes))
	}
	m := &Matrix{Rows: rows, Cols: cols, Type: backend.F32, kernel: k, data: data, codes: &codes}
	if codes.Scale == nil {
		m.format = k.formats[codes.Name]
	}
	return m
}

// decode sets dst to the weights of row r from column col on, where a block begins.
func (m *Matrix) decode(dst []float32, r, col int) {
	c := m.codes
	src := m.data[r*c.bytes(m.Cols)+c.bytes(col):]
	for i := 0; i < len(dst); i += c.Block {
		block := dst[i : i+c.Block]
		c.Decode(block, src[:c.Bytes])
		src = src[c.Bytes:]
		if c.Scale != nil {
			scale := c.Scale(r, col+i)
			for j := range block {
				block[j] *= scale
			}
		}
	}
}

const (
	together = 4   // rows of weights that kernels take at a time
	unit     = 32  // rows of weights of a unit of work: a multiple of together
	many     = 96  // rows of x that are multiplied by decoded weights before these are decoded again
	columns  = 512 // that are decoded at a time: a multiple of all blocks and lanes
	maxLanes = 16
)

// codesRoom is what a product with codes needs while it runs.
type codesRoom struct {
	weights [unit * columns]float32
	sums    [unit * many * maxLanes]float32 // [unit/together, rows, together, lanes]
	out     [unit * many]float32            // [unit/together, rows, together]
	rest    [many * maxLanes]float32        // columns of x that do not fill the lanes, and zeros
	words   [unit * chunk * maxWord]byte    // weights for format, at an address that vectors like, as rounded is
	rounded []byte                          // rows of x for format
}

var codesRooms = sync.Pool{New: func() any { return new(codesRoom) }}

// codesUnits is Units of codes.
func (m *Matrix) codesUnits(n int) int { return (m.Rows + unit - 1) / unit * ((n + many - 1) / many) }

// mulCodes is Mul of codes: all units of some rows of x, and then those of the next ones.
func (m *Matrix) mulCodes(out, x []float32, n int, add bool, from, to int) {
	tmp, units, rounded := codesRooms.Get().(*codesRoom), m.codesUnits(1), -1
	for u := from; u < to; u++ {
		row, first := u%units*unit, u/units*many
		rows, some := min(m.Rows-row, unit), min(n-first, many)
		switch input := x[first*m.Cols : (first+some)*m.Cols]; {
		case m.format.row == nil:
			m.manyRows(tmp, input, row, rows, some)
		default:
			if rounded != first {
				m.round(tmp, input)
				rounded = first
			}
			if some < few {
				m.fewIntegers(tmp, row, rows, some)
			} else {
				m.manyIntegers(tmp, row, rows, some)
			}
		}
		for c := range rows {
			sums := tmp.out[c/together*some*together+c%together:]
			for r := range some {
				to := &out[(first+r)*m.Rows+row+c]
				if v := sums[r*together]; add {
					*to += v
				} else {
					*to = v
				}
			}
		}
	}
	codesRooms.Put(tmp)
}

// manyRows is some rows of weights, which are decoded, times n rows of x.
func (m *Matrix) manyRows(tmp *codesRoom, x []float32, row, rows, n int) {
	k, groups := m.kernel, (rows+together-1)/together
	each := n * together * k.lanes // sums of a group
	clear(tmp.sums[:groups*each])
	for col := 0; col < m.Cols; col += columns {
		cols := min(columns, m.Cols-col)
		whole := cols / k.lanes * k.lanes
		for r := range rows {
			weights := tmp.weights[r*columns : (r+1)*columns]
			m.decode(weights[:cols], row+r, col)
			clear(weights[cols:])
		}
		if whole < cols {
			clear(tmp.rest[:n*k.lanes])
			for r := range n {
				copy(tmp.rest[r*k.lanes:], x[r*m.Cols+col+whole:(r+1)*m.Cols])
			}
		}
		for g := range groups {
			sums, weights := &tmp.sums[g*each], tmp.weights[g*together*columns:]
			if whole > 0 {
				k.tile(sums, &x[col], m.Cols, &weights[0], columns, n, whole)
			}
			if whole < cols {
				k.tile(sums, &tmp.rest[0], k.lanes, &weights[whole], columns, n, k.lanes)
			}
		}
	}
	k.fold(&tmp.out[0], &tmp.sums[0], groups*n)
}
