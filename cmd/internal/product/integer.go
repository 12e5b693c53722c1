package product

import "slices"

// layout is how a kernel multiplies in integers. x is rounded to integers of 15 bits, with a scale for each block: an error of at most a
// 32,766th of the block's largest magnitude; magnitudes below 2^-100 are zeros. Sums of a block are exact, in lanes of the layout's order of
// columns, and float32 adds them up, times the product of both scales, in the order of blocks. That product is as good as float32 has it: it
// overflows, or has fewer bits, where a weight's scale times the largest of x is about 2^128, or below 2^-112.
//
// A row of x has the same bits alone and as one of many.
type layout struct {
	round func(out *byte, x *float32, blocks int) // out: [blocks, x]
	// tile adds to sums, [rows, together, lanes], what format.row folds: the products of rows of x, rounded, with together rows of words.
	tile func(sums *float32, x *byte, xStride int, w *byte, wStride, rows, blocks int)
	x, w int // bytes of a block of x, rounded, and of weights as words
}

// format is a kernel's functions for a type of codes.
type format struct {
	layout
	// row sets out, [together], to the products of x, rounded, with together rows of codes, stride bytes apart.
	row   func(out *float32, x, w *byte, stride, blocks int)
	words func(out, w *byte, blocks int) // weights for tile: [blocks, w]
}

const (
	few     = 4 // rows of x at which weights are expanded to words
	maxWord = 3 // bytes of a weight as a word, with its share of factors
)

// round sets what m's format makes of rows of x.
func (m *Matrix) round(tmp *codesRoom, x []float32) {
	blocks := len(x) / m.codes.Block
	size := blocks * m.format.x
	tmp.rounded = slices.Grow(tmp.rounded[:0], size)[:size]
	m.format.round(&tmp.rounded[0], &x[0], blocks)
}

// fewIntegers is some rows of weights times n rows of x: codes stay in registers.
func (m *Matrix) fewIntegers(tmp *codesRoom, row, rows, n int) {
	blocks := m.Cols / m.codes.Block
	for c := 0; c < rows; {
		taken, stride := m.group(c, rows, together)
		for r := range n {
			m.format.row(&tmp.one[0], &tmp.rounded[r*blocks*m.format.x], &m.data[(row+c)*m.codes.bytes(m.Cols)], stride, blocks)
			copy(tmp.out[(c/together*n+r)*together+c%together:], tmp.one[:taken])
		}
		c += taken
	}
}

// manyIntegers is some rows of weights, which become words, times n rows of x.
func (m *Matrix) manyIntegers(tmp *codesRoom, row, rows, n int) {
	f, block, chunk := &m.format, m.codes.Block, m.chunk()
	groups, each := (rows+together-1)/together, n*together*m.kernel.lanes
	clear(tmp.sums[:groups*each])
	for col := 0; col < m.Cols; col += chunk {
		blocks := min(chunk, m.Cols-col) / block
		for r := range rows {
			f.words(&tmp.words[r*chunk/block*f.w], &m.data[(row+r)*m.codes.bytes(m.Cols)+m.codes.bytes(col)], blocks)
		}
		for first := 0; first < n; first += strip {
			for g := range groups {
				f.tile(&tmp.sums[g*each+first*together*m.kernel.lanes], &tmp.rounded[(first*m.Cols+col)/block*f.x], m.Cols/block*f.x,
					&tmp.words[g*together*chunk/block*f.w], chunk/block*f.w, min(strip, n-first), blocks)
			}
		}
	}
	m.kernel.fold(&tmp.out[0], &tmp.sums[0], groups*n)
}
