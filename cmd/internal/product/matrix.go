// Package product multiplies by matrices of weights that are packed once: rows of activations, as float32, by weights
// stored as f32, f16, bf16 or int8, which it reads as they are stored; or by weights in codes that stay where they are, such as a part
// of a file that is mapped into memory (see PackCodes).
//
// Weights become float32 without rounding, but for int8 with a scale of more than 17 significant bits (GGUF's have 11), and
// are then added up in float32, column after column. So a result has the same bits as that of the same weights stored as
// f32, whatever is computed beside it, and however the work is divided. Between kernels bits differ: only some add a
// product to a sum in one rounding.
package product

import (
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Matrix is weights [Rows, Cols]. It is not changed once it is packed, so it is safe for concurrent use.
//
// It lies in panels of rows, as many as a kernel keeps sums of. A panel has the weights of its first column for all
// of its rows, then those of the second column, and so on. The last panel may be narrower, and is filled with zeros.
// A panel of int8 has the scales of its rows, as float32, in front of each Group columns.
type Matrix struct {
	Rows, Cols int
	Type       backend.DType // F32, F16, BF16 or Int8
	kernel     *kernel
	data       []byte
	codes      *Codes // of rows as a file stores them; nil: there are panels
	format     format // the kernel's functions for codes, if it has some
}

// Group is how many columns of int8 share a scale, as in GGUF's Q8_0.
const Group = 32

// Pack is the weights data [rows, cols] as dtype stores them: F32, F16, BF16 or Int8, for which scales [rows, cols/Group
// rounded up] are what its codes count. Weights that it does not have are rounded. It retains neither.
func Pack(dtype backend.DType, rows, cols int, data, scales []float32) *Matrix {
	return pack(chosen(), dtype, rows, cols, data, scales)
}

var sizes = [backend.NumDTypes]int{backend.F32: 4, backend.F16: 2, backend.BF16: 2, backend.Int8: 1}

// groups is how many scales the columns of a row have.
func (m *Matrix) groups(cols int) int {
	if m.Type != backend.Int8 {
		return 0
	}
	return (cols + Group - 1) / Group
}

// Kernel names the loops that it is packed for, as backend/cpu calls its own.
func (m *Matrix) Kernel() string { return m.kernel.name }

// Bytes is how large the weights are, the rows that fill the last panel and scales included.
func (m *Matrix) Bytes() int { return len(m.data) }

func pack(k *kernel, dtype backend.DType, rows, cols int, data, scales []float32) *Matrix {
	m := &Matrix{Rows: rows, Cols: cols, Type: dtype, kernel: k}
	if rows < 1 || cols < 1 || len(data) != rows*cols || k.blocks[dtype] == nil || len(scales) != rows*m.groups(cols) {
		panic(fmt.Sprintf("product: a matrix of %dx%d of %d weights as %v with %d scales", rows, cols, len(data), dtype, len(scales)))
	}
	m.data = make([]byte, (rows+k.step-1)/k.step*k.step*m.row())
	groups := m.groups(cols)
	for r := range rows {
		for i, v := range data[r*cols : (r+1)*cols] {
			p := m.weight(r, i)
			switch dtype {
			case backend.F32:
				*(*float32)(p) = v
			case backend.F16:
				*(*uint16)(p) = quant.F16(v)
			case backend.BF16:
				*(*uint16)(p) = quant.BF16(v)
			default:
				scale := scales[r*groups+i/Group]
				*m.scale(r, i) = scale
				if scale != 0 {
					*(*int8)(p) = int8(min(max(math.RoundToEven(float64(v/scale)), -128), 127))
				}
			}
		}
	}
	return m
}

// Row sets dst [Cols] to a row's weights.
func (m *Matrix) Row(dst []float32, r int) {
	if m.codes != nil {
		m.decode(dst[:m.Cols], r, 0)
		return
	}
	for i := range dst[:m.Cols] {
		p := m.weight(r, i)
		switch m.Type {
		case backend.F32:
			dst[i] = *(*float32)(p)
		case backend.F16:
			dst[i] = quant.FromF16(*(*uint16)(p))
		case backend.BF16:
			dst[i] = quant.FromBF16(*(*uint16)(p))
		default:
			dst[i] = *m.scale(r, i) * float32(*(*int8)(p))
		}
	}
}

// row is how many bytes a row has, with its scales.
func (m *Matrix) row() int { return m.Cols*sizes[m.Type] + m.groups(m.Cols)*4 }

// panel is where the panel is that begins with row r, and how many rows it has, those that are filled included.
func (m *Matrix) panel(r int) (at, width int) {
	left := (m.Rows - r + m.kernel.step - 1) / m.kernel.step * m.kernel.step
	return r * m.row(), min(left, m.kernel.width)
}

// column is where column i is in a panel of width rows, after the scales that it begins with where it is the first of a group.
func (m *Matrix) column(width, i int) int { return width * (i*sizes[m.Type] + m.groups(i)*4) }

// weight is column i of row r.
func (m *Matrix) weight(r, i int) unsafe.Pointer {
	first := r / m.kernel.width * m.kernel.width
	at, width := m.panel(first)
	return unsafe.Pointer(&m.data[at+m.column(width, i-i%Group)+width*(4*m.groups(1)+i%Group*sizes[m.Type])+(r-first)*sizes[m.Type]])
}

// scale is that of column i of row r of int8.
func (m *Matrix) scale(r, i int) *float32 {
	first := r / m.kernel.width * m.kernel.width
	at, width := m.panel(first)
	return (*float32)(unsafe.Pointer(&m.data[at+m.column(width, i-i%Group)+4*(r-first)]))
}

const (
	band  = 48  // rows of x that pass over a panel before the next ones do
	depth = 512 // columns of a panel that stay in a cache meanwhile: a multiple of Group
)

// room is where products go that have more columns than the result.
type room [band * maxWidth]float32

var rooms = sync.Pool{New: func() any { return new(room) }}

// ones are the factors of what is there already.
var ones = func() (all [band]float32) {
	for i := range all {
		all[i] = 1
	}
	return all
}()

// Units is how many parts the product with n rows can be divided into.
func (m *Matrix) Units(n int) int {
	if m.codes != nil {
		return m.codesUnits(n)
	}
	return (m.Rows + m.kernel.width - 1) / m.kernel.width * ((n + band - 1) / band)
}

// Nanoseconds is about how long the product with n rows takes one thread.
func (m *Matrix) Nanoseconds(n int) int { return n * m.Rows * m.Cols / m.kernel.speed }

// Mul sets out [n, Rows] to x [n, Cols] times the transpose of m, or with add adds that. Of the product it computes the
// units [from, to), which are disjoint parts of out. It retains nothing, and allocates nothing once it is warm.
func (m *Matrix) Mul(out, x []float32, n int, add bool, from, to int) {
	out, x = out[:n*m.Rows], x[:n*m.Cols]
	if m.codes != nil {
		m.mulCodes(out, x, n, add, from, to)
		return
	}
	k, bands := m.kernel, (n+band-1)/band
	for u := from; u < to; u++ {
		row, first := u/bands*k.width, u%bands*band
		_, width := m.panel(row)
		if n == 1 && k.rows[m.Type] != nil && u+4 <= to && row+4*k.width <= m.Rows {
			width, u = 4*k.width, u+3
		}
		m.part(out[first*m.Rows+row:], x[first*m.Cols:], row, width, min(n-first, band), add)
	}
}

// factors is those of what is there already; none where it does not count.
func factors(add bool) *float32 {
	if add {
		return &ones[0]
	}
	return nil
}

// part is the panel from a row on, or four panels, times some rows of x.
func (m *Matrix) part(out, x []float32, row, width, rows int, add bool) {
	if row+width <= m.Rows {
		m.sums(&out[0], m.Rows, x, row, width, rows, add)
		return
	}
	tmp := rooms.Get().(*room)
	m.sums(&tmp[0], width, x, row, width, rows, false)
	for r := range rows {
		to, from := out[r*m.Rows:][:m.Rows-row], tmp[r*width:]
		for i := range to {
			if add {
				to[i] += from[i]
			} else {
				to[i] = from[i]
			}
		}
	}
	rooms.Put(tmp)
}

// sums is part into rows that are stride apart and have room for the panel's whole width.
func (m *Matrix) sums(out *float32, stride int, x []float32, row, width, rows int, add bool) {
	at, _ := m.panel(row)
	if width > m.kernel.width {
		m.kernel.rows[m.Type](out, factors(add), &x[0], &m.data[at], m.Cols)
		return
	}
	f, step := m.kernel.blocks[m.Type][width/m.kernel.step-1], depth
	if rows < 6 {
		step = m.Cols // nothing comes back to it
	}
	for i := 0; i < m.Cols; i += step {
		f(out, stride, factors(add || i > 0), &x[i], m.Cols, &m.data[at+m.column(width, i)], width, rows, min(step, m.Cols-i))
	}
}
