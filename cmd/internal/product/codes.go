package product

import (
	"fmt"
	"slices"
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
)

// Codes is how a type stores the weights of a row: blocks of some weights, each in some bytes, that Decode turns into numbers. A kernel
// may have functions of its own for a type of this name, as ggml calls it (see format).
type Codes struct {
	Name         string
	Block, Bytes int
	// Decode sets dst to the numbers of a block; where that is one number, of as many blocks as dst has elements.
	Decode func(dst []float32, src []byte)
	// Scale is what the numbers of the block at a row and a column are multiplied by, of types whose scales are not in their blocks; nil: 1.
	Scale func(row, col int) float32
	// Fine takes thrice the time for integers of x that have 24 bits together, as float32 has, where a kernel multiplies in integers, rather than 8.
	Fine bool
}

// bytes is those of a row's first cols weights.
func (c *Codes) bytes(cols int) int { return cols / c.Block * c.Bytes }

// PackCodes is the weights data [rows, cols/Block, Bytes], which it retains and reads where it is, at any address. cols is a multiple
// of Block, which is a power of two, at most 256.
//
// Types for which the kernel has a format are multiplied in integers (see layout). Others are decoded whenever they are multiplied by:
// a kernel has a number of lanes, of which lane l adds up the products of columns l, l+lanes, l+2·lanes and so on, and then the lanes are
// added. So a result has the same bits for all such types that store the same weights, and whatever is computed beside it.
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
	c, done := m.codes, 0
	src := m.data[r*c.bytes(m.Cols)+c.bytes(col):]
	if vectors := len(dst) / m.kernel.lanes; m.numbers != nil && m.numbers.decode != nil && vectors > 0 {
		m.numbers.decode(&dst[0], &src[0], vectors)
		done = vectors * m.kernel.lanes
		src = src[c.bytes(done):]
	}
	if c.Block == 1 && c.Scale == nil {
		c.Decode(dst[done:], src)
		return
	}
	for i := done; i < len(dst); i += c.Block {
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
	together      = 4            // rows of weights that kernels take at a time,
	rowsOfNumbers = 2 * together // and of numbers with one row of x
	unit          = 32           // rows of weights of a unit of work: a multiple of together
	many          = 192          // rows of x that are multiplied by decoded weights before these are decoded again
	columns       = 512          // that are decoded at a time: a multiple of all blocks and lanes,
	strip         = 12           // times as many rows of x, so that they stay in the first cache
	pitch         = columns + 8  // of which two rows are never at the same place of a cache
	maxLanes      = 8
)

// codesRoom is what a product with codes needs while it runs. Arrays come first, at multiples of 64 bytes.
type codesRoom struct {
	weights [unit * columns]float32
	words   [unit * columns * maxWord]byte  // weights for layout.tile
	sums    [unit * many * maxLanes]float32 // [unit/together, rows, together, lanes]
	out     [unit * many]float32            // [unit/together, rows, together]
	one     [unit]float32                   // what a kernel makes of one row of x
	x       []float32                       // rows of x for tile: chunks, [rows, pitch] of each; or with what rounding left of them
	rounded []byte                          // or in integers: [rows, blocks]
}

var codesRooms = sync.Pool{New: func() any { return new(codesRoom) }}

// codesUnits is Units of codes.
func (m *Matrix) codesUnits(n int) int { return (m.Rows + unit - 1) / unit * m.bands(n) }

// bands is the number of groups that n rows of x are multiplied in.
func (m *Matrix) bands(n int) int {
	most := many / m.times()
	return (n + most - 1) / most
}

// times is how many rows of integers stand for one row of x.
func (m *Matrix) times() int {
	if m.codes.Fine && m.format.row != nil {
		return 3
	}
	return 1
}

// mulCodes is Mul of codes: all units of some rows of x, and then those of the next ones.
func (m *Matrix) mulCodes(out, x []float32, n int, add bool, from, to int) {
	tmp, units, ready := codesRooms.Get().(*codesRoom), m.codesUnits(1), -1 // the first of the rows of x that are in tmp
	bands, times := m.bands(n), m.times()
	for u := from; u < to; u++ {
		row, band := u%units*unit, u/units
		first := band * n / bands
		rows, some := min(m.Rows-row, unit), (band+1)*n/bands-first
		switch input := x[first*m.Cols : (first+some)*m.Cols]; {
		case m.format.row != nil:
			if ready != first {
				m.round(tmp, input, some)
			}
			if times*some < few {
				m.fewIntegers(tmp, row, rows, times*some)
			} else {
				m.manyIntegers(tmp, row, rows, times*some)
			}
		case some == 1 && m.numbers != nil && m.numbers.row != nil && m.Cols%m.kernel.lanes == 0:
			m.oneRow(tmp, input, row, rows)
		default:
			if ready != first {
				m.spread(tmp, input, some)
			}
			m.manyRows(tmp, row, rows, some)
		}
		ready = first
		if times*some == 1 {
			put(out[first*m.Rows+row:][:rows], tmp.out[:], add)
			continue
		}
		for c := 0; c < rows; c += together {
			for r := range some {
				from := tmp.out[c*times*some+r*together:]
				for part := 1; part < times; part++ {
					put(from[:together], from[part*some*together:], true)
				}
				put(out[(first+r)*m.Rows+row:][c:min(c+together, rows)], from, add)
			}
		}
	}
	codesRooms.Put(tmp)
}

// put sets to to from, or with add adds that.
func put(to, from []float32, add bool) {
	if !add {
		copy(to, from)
		return
	}
	for i := range to {
		to[i] += from[i]
	}
}

// chunk is how many columns are multiplied at a time: about as many each time, at most columns.
func (m *Matrix) chunk() int {
	const most = 320 // of which strips of x stay in the first cache
	step := max(m.kernel.lanes, m.codes.Block)
	chunks := (m.Cols + most - 1) / most
	return min((m.Cols+chunks*step-1)/(chunks*step)*step, columns)
}

// spread copies n rows of x, chunk by chunk, each with zeros that fill the lanes.
func (m *Matrix) spread(tmp *codesRoom, x []float32, n int) {
	chunk := m.chunk()
	size := (m.Cols + chunk - 1) / chunk * n * pitch
	tmp.x = slices.Grow(tmp.x[:0], size)[:size]
	to := tmp.x
	for col := 0; col < m.Cols; col += chunk {
		for r := range n {
			clear(to[copy(to, x[r*m.Cols+col : (r+1)*m.Cols][:min(chunk, m.Cols-col)]):pitch])
			to = to[pitch:]
		}
	}
}

// manyRows is some rows of weights, which are decoded, times n rows of x.
func (m *Matrix) manyRows(tmp *codesRoom, row, rows, n int) {
	k, groups := m.kernel, (rows+together-1)/together
	each, chunk, x := n*together*k.lanes, m.chunk(), tmp.x // sums of a group
	clear(tmp.sums[:groups*each])
	for col := 0; col < m.Cols; col += chunk {
		cols := min(chunk, m.Cols-col)
		whole := (cols + k.lanes - 1) / k.lanes * k.lanes
		for r := range rows {
			weights := tmp.weights[r*columns : (r+1)*columns]
			m.decode(weights[:cols], row+r, col)
			clear(weights[cols:whole])
		}
		for first := 0; first < n; first += strip {
			for g := range groups {
				k.tile(&tmp.sums[g*each+first*together*k.lanes], &x[first*pitch], pitch, &tmp.weights[g*together*columns], columns, min(strip, n-first), whole)
			}
		}
		x = x[n*pitch:]
	}
	k.fold(&tmp.out[0], &tmp.sums[0], groups*n)
}
