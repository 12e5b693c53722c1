package product

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Codes is how a type stores the weights of a row: blocks of so many, each in so many bytes, which Decode makes numbers of.
type Codes struct {
	Block, Bytes int
	Decode       func(dst []float32, src []byte)
	// Scale is what the numbers of the block at a row and a column are multiplied by, of types whose scales are not in their blocks; nil: 1.
	Scale func(row, col int) float32
}

// bytes is those of a row of cols weights.
func (c *Codes) bytes(cols int) int { return cols / c.Block * c.Bytes }

// row decodes a row, or a part of it from a column on that begins a block.
func (c *Codes) row(dst []float32, src []byte, row, col int) {
	for i := 0; i < len(dst); i += c.Block {
		block := dst[i : i+c.Block]
		c.Decode(block, src[:c.Bytes])
		src = src[c.Bytes:]
		if c.Scale != nil {
			scale := c.Scale(row, col+i)
			for j := range block {
				block[j] *= scale
			}
		}
	}
}

// PackCodes is the weights data [rows, cols/Block, Bytes], which it retains: they are decoded panel by panel whenever they are
// multiplied by. A result has the bits of one with the decoded weights as F32. cols is a multiple of Block, which divides 512.
func PackCodes(codes Codes, rows, cols int, data []byte) *Matrix {
	if rows < 1 || cols < 1 || cols%codes.Block != 0 || depth%codes.Block != 0 || len(data) != rows*codes.bytes(cols) {
		panic(fmt.Sprintf("product: a matrix of %dx%d in %d bytes, in blocks of %d in %d bytes", rows, cols, len(data), codes.Block, codes.Bytes))
	}
	return &Matrix{Rows: rows, Cols: cols, Type: backend.F32, kernel: chosen(), data: data, codes: &codes}
}

// panelRoom is a decoded panel of depth columns, and a row of it.
type panelRoom struct {
	panel [depth * maxWidth]float32
	row   [depth]float32
}

var panelRooms = sync.Pool{New: func() any { return new(panelRoom) }}

// decoded is sums of rows of codes.
func (m *Matrix) decoded(out *float32, stride int, x []float32, row, width, rows int, add bool) {
	room := panelRooms.Get().(*panelRoom)
	f, bytes := m.kernel.blocks[backend.F32][width/m.kernel.step-1], m.codes.bytes(m.Cols)
	for i := 0; i < m.Cols; i += depth {
		cols := min(depth, m.Cols-i)
		for r := range width {
			values := room.row[:cols]
			if row+r < m.Rows {
				m.codes.row(values, m.data[(row+r)*bytes+m.codes.bytes(i):], row+r, i)
			} else {
				clear(values) // of the last panel
			}
			for j, v := range values {
				room.panel[j*width+r] = v
			}
		}
		f(out, stride, factors(add || i > 0), &x[i], m.Cols, (*byte)(unsafe.Pointer(&room.panel)), width, rows, cols)
	}
	panelRooms.Put(room)
}
