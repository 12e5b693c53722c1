package product

import (
	"encoding/binary"
	"math"
	"slices"
)

// layout is how a kernel multiplies in integers. x is rounded to integers of 8 bits, with a scale for each block: an error of at most a
// 254th of the block's largest magnitude, as llama.cpp makes. If Codes are fine, what is left is rounded and multiplied as
// another row, and what is left of that again. Magnitudes below 2^-100 are zeros, also of what is left. Sums of a block are exact,
// each lane's of its columns, and float32 adds them up, times the product of both scales, in the order of blocks. That product is as good as
// float32 has it: it overflows, or has fewer bits, where a weight's scale times the largest of x is about 2^128, or below 2^-119.
//
// A row of x has the same bits alone and as one of many.
type layout struct {
	one, many rounded // of x, for format.row and for tile
	// tile adds to sums, [rows, together, lanes], what format.row folds: the products of rows of x, rounded, with together rows of words.
	tile tile
	w    int // bytes of a block of weights as words
}

type tile func(sums *float32, x *byte, xStride int, w *byte, wStride, rows, blocks int)

// rounded is a form of x in integers.
type rounded struct {
	round func(out *byte, x *float32, blocks int) // out: [blocks, size]
	size  int                                     // bytes of a block
}

// format is a kernel's functions for a type of codes.
type format struct {
	layout
	// row sets out, [n], to the products of x, rounded, with n rows of codes, stride bytes apart.
	row   func(out *float32, x, w *byte, stride, blocks, n int)
	words func(out, w *byte, blocks int) // weights for tile: [blocks, w]
}

const (
	few     = 16 // rows of x at which weights are expanded to words
	maxWord = 3  // bytes of a weight as a word, with its share of factors
)

// round sets what m's format makes of n rows of x.
func (m *Matrix) round(tmp *codesRoom, x []float32, n int) {
	form := m.format.many
	if m.times()*n < few {
		form = m.format.one
	}
	if m.times() > 1 {
		x = m.withRest(tmp, x)
	}
	blocks := len(x) / m.codes.Block
	tmp.rounded = slices.Grow(tmp.rounded[:0], blocks*form.size)[:blocks*form.size]
	form.round(&tmp.rounded[0], &x[0], blocks)
}

// withRest returns the rows of x, then as many rows of what rounding them leaves, then of what rounding those leaves.
func (m *Matrix) withRest(tmp *codesRoom, x []float32) []float32 {
	block, form := m.codes.Block, m.format.one
	blocks := len(x) / block
	tmp.rounded = slices.Grow(tmp.rounded[:0], blocks*form.size)[:blocks*form.size]
	tmp.x = append(tmp.x[:0], x...)
	for part := 1; part < m.times(); part++ {
		rounded := tmp.x[(part-1)*len(x):]
		form.round(&tmp.rounded[0], &rounded[0], blocks)
		tmp.x = append(tmp.x, rounded...)
		for i := range blocks {
			from, rest := tmp.rounded[i*form.size:(i+1)*form.size], tmp.x[part*len(x)+i*block:][:block]
			scale := math.Float32frombits(binary.LittleEndian.Uint32(from[form.size-4:]))
			for j := range rest {
				rest[j] -= float32(float32(int8(from[j])) * scale)
			}
		}
	}
	return tmp.x
}

// fewIntegers is some rows of weights times n rows of x: codes stay in registers.
func (m *Matrix) fewIntegers(tmp *codesRoom, row, rows, n int) {
	bytes, blocks := m.codes.bytes(m.Cols), m.Cols/m.codes.Block
	to := tmp.one[:rows]
	if n == 1 {
		to = tmp.out[:rows] // where they belong
	}
	for r := range n {
		m.format.row(&to[0], &tmp.rounded[r*blocks*m.format.one.size], &m.data[row*bytes], bytes, blocks, rows)
		for c := 0; c < rows && n > 1; c += together {
			copy(tmp.out[(c*n+r*together):], to[c:min(c+together, rows)])
		}
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
				f.tile(&tmp.sums[g*each+first*together*m.kernel.lanes], &tmp.rounded[(first*m.Cols+col)/block*f.many.size], m.Cols/block*f.many.size,
					&tmp.words[g*together*chunk/block*f.w], chunk/block*f.w, min(strip, n-first), blocks)
			}
		}
	}
	m.kernel.fold(&tmp.out[0], &tmp.sums[0], groups*n)
}
