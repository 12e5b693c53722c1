// Package product multiplies rows of activations, as float32, by matrices of weights, which stay as they are stored, such as in a part of a file that
// is mapped into memory: numbers in f32, f16 and bf16 (PackBytes), and codes of other types (PackCodes). Kernels without functions
// for the former pack them into panels.
//
// Numbers, and codes of types without functions of their own, become float32 without rounding, and products are added up in float32. So
// a result has the same bits as that of the same weights stored as f32. Types with functions of their own are multiplied in integers,
// by activations that are rounded to 15 bits (see layout). Either way a result has the same bits whatever is computed beside it, and
// however the work is divided. Between kernels bits differ.
package product

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Matrix is weights [Rows, Cols]. It is not changed once it is packed, so it is safe for concurrent use.
//
// In panels are as many rows as a kernel keeps sums of. A panel has the weights of its first column for all
// of its rows, then those of the second column, and so on. The last panel may be narrower, and is filled with zeros.
type Matrix struct {
	Rows, Cols int
	Type       backend.DType // F32, F16 or BF16
	kernel     *kernel
	data       []byte
	codes      *Codes   // of rows as a file stores them; nil: there are panels
	numbers    *numbers // the kernel's functions for numbers, if these are not in panels
	format     format   // or those for codes, if it has some
}

// Pack is the weights data [rows, cols] as dtype stores them: F32, F16 or BF16. Weights that it does not have are rounded. It does not
// retain data.
func Pack(dtype backend.DType, rows, cols int, data []float32) *Matrix {
	return pack(chosen(), dtype, rows, cols, data)
}

var sizes = [backend.NumDTypes]int{backend.F32: 4, backend.F16: 2, backend.BF16: 2}

// Kernel names the loops that it is packed for, as backend/cpu calls its own.
func (m *Matrix) Kernel() string { return m.kernel.name }

// Bytes is how large the weights are, the rows that fill the last panel included.
func (m *Matrix) Bytes() int { return len(m.data) }

func pack(k *kernel, dtype backend.DType, rows, cols int, data []float32) *Matrix {
	m := &Matrix{Rows: rows, Cols: cols, Type: dtype, kernel: k}
	if rows < 1 || cols < 1 || len(data) != rows*cols || sizes[dtype] == 0 {
		panic(fmt.Sprintf("product: a matrix of %dx%d of %d weights as %v", rows, cols, len(data), dtype))
	}
	if k.numbers[dtype] != nil {
		all := make([]byte, 0, len(data)*sizes[dtype])
		for _, v := range data {
			switch dtype {
			case backend.F32:
				all = binary.LittleEndian.AppendUint32(all, math.Float32bits(v))
			case backend.F16:
				all = binary.LittleEndian.AppendUint16(all, quant.F16(v))
			default:
				all = binary.LittleEndian.AppendUint16(all, quant.BF16(v))
			}
		}
		return packBytes(k, dtype, rows, cols, all, nil)
	}
	m.data = make([]byte, (rows+k.step-1)/k.step*k.step*m.row())
	for r := range rows {
		for i, v := range data[r*cols : (r+1)*cols] {
			switch p := m.weight(r, i); dtype {
			case backend.F32:
				*(*float32)(p) = v
			case backend.F16:
				*(*uint16)(p) = quant.F16(v)
			default:
				*(*uint16)(p) = quant.BF16(v)
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
		default:
			dst[i] = quant.FromBF16(*(*uint16)(p))
		}
	}
}

// row is how many bytes a row has.
func (m *Matrix) row() int { return m.Cols * sizes[m.Type] }

// panel is where the panel is that begins with row r, and how many rows it has, those that are filled included.
func (m *Matrix) panel(r int) (at, width int) {
	left := (m.Rows - r + m.kernel.step - 1) / m.kernel.step * m.kernel.step
	return r * m.row(), min(left, m.kernel.width)
}

// weight is column i of row r.
func (m *Matrix) weight(r, i int) unsafe.Pointer {
	first := r / m.kernel.width * m.kernel.width
	at, width := m.panel(first)
	return unsafe.Pointer(&m.data[at+(i*width+r-first)*sizes[m.Type]])
}

const (
	band  = 48  // rows of x that pass over a panel before the next ones do
	depth = 512 // columns of a panel that stay in a cache meanwhile
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

// part is the panel from a row on, times some rows of x.
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
	f, step := m.kernel.blocks[m.Type][width/m.kernel.step-1], depth
	if rows < 6 {
		step = m.Cols // nothing comes back to it
	}
	for i := 0; i < m.Cols; i += step {
		f(out, stride, factors(add || i > 0), &x[i], m.Cols, &m.data[at+i*width*sizes[m.Type]], width, rows, min(step, m.Cols-i))
	}
}
