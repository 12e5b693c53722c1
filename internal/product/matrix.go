// Package product multiplies by matrices of weights that are packed once: rows of activations, as float32, by weights
// stored as f32, f16, bf16 or int8, which it reads as they are stored. A row of a result has the same bits whatever is
// computed beside it, and however the work is divided.
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
type Matrix struct {
	Rows, Cols int
	dtype      backend.DType
	size       int // bytes of a weight
	kernel     *kernel
	data       []byte
	scales     []float32 // [Rows] of int8, whose codes are −127 to 127
}

// Pack is the weights data [rows, cols], rounded to dtype: F32, F16, BF16 or Int8, of which each row has a scale. data is not retained.
func Pack(dtype backend.DType, rows, cols int, data []float32) *Matrix {
	return pack(chosen(), dtype, rows, cols, data)
}

var sizes = [backend.NumDTypes]int{backend.F32: 4, backend.F16: 2, backend.BF16: 2, backend.Int8: 1}

func pack(k *kernel, dtype backend.DType, rows, cols int, data []float32) *Matrix {
	if rows < 1 || cols < 1 || len(data) != rows*cols || k.blocks[dtype] == nil {
		panic(fmt.Sprintf("product: a matrix of %dx%d of %d weights as %v", rows, cols, len(data), dtype))
	}
	m := &Matrix{Rows: rows, Cols: cols, dtype: dtype, size: sizes[dtype], kernel: k}
	m.data = make([]byte, (rows+k.step-1)/k.step*k.step*cols*m.size)
	if dtype == backend.Int8 {
		m.scales = make([]float32, rows)
	}
	for r := range rows {
		row, scale := data[r*cols:(r+1)*cols], float32(1)
		if m.scales != nil {
			top := float32(0)
			for _, v := range row {
				top = max(top, v, -v)
			}
			scale = top / 127
			m.scales[r] = scale
		}
		at, stride := m.element(r)
		for i, v := range row {
			p := unsafe.Pointer(&m.data[at+i*stride])
			switch dtype {
			case backend.F32:
				*(*float32)(p) = v
			case backend.F16:
				*(*uint16)(p) = quant.F16(v)
			case backend.BF16:
				*(*uint16)(p) = quant.BF16(v)
			default:
				if scale > 0 {
					*(*int8)(p) = int8(math.RoundToEven(float64(v / scale)))
				}
			}
		}
	}
	return m
}

// Row sets dst [Cols] to a row's weights.
func (m *Matrix) Row(dst []float32, r int) {
	at, stride := m.element(r)
	for i := range dst[:m.Cols] {
		p := unsafe.Pointer(&m.data[at+i*stride])
		switch m.dtype {
		case backend.F32:
			dst[i] = *(*float32)(p)
		case backend.F16:
			dst[i] = quant.FromF16(*(*uint16)(p))
		case backend.BF16:
			dst[i] = quant.FromBF16(*(*uint16)(p))
		default:
			dst[i] = m.scales[r] * float32(*(*int8)(p))
		}
	}
}

// panel is where the panel is that begins with row r, and how many rows it has, those that are filled included.
func (m *Matrix) panel(r int) (at, width int) {
	left := (m.Rows - r + m.kernel.step - 1) / m.kernel.step * m.kernel.step
	return r * m.Cols * m.size, min(left, m.kernel.width)
}

// element is where a row begins, and how many bytes are between its weights.
func (m *Matrix) element(r int) (first, stride int) {
	top := r / m.kernel.width * m.kernel.width
	at, width := m.panel(top)
	return at + (r-top)*m.size, width * m.size
}

const (
	band  = 48  // rows of x that pass over a panel before the next ones do
	depth = 512 // columns of a panel that stay in a cache meanwhile
)

// room is where products go that have more columns than the result, or are not scaled yet.
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
	return (m.Rows + m.kernel.width - 1) / m.kernel.width * ((n + band - 1) / band)
}

// Nanoseconds is about how long the product with n rows takes one thread.
func (m *Matrix) Nanoseconds(n int) int { return n * m.Rows * m.Cols / m.kernel.speed }

// Mul sets out [n, Rows] to x [n, Cols] times the transpose of m, or with add adds that. Of the product it computes the
// units [from, to), which are disjoint parts of out. It retains nothing, and allocates nothing once it is warm.
func (m *Matrix) Mul(out, x []float32, n int, add bool, from, to int) {
	out, x = out[:n*m.Rows], x[:n*m.Cols]
	k, bands := m.kernel, (n+band-1)/band
	for u := from; u < to; u++ {
		row, first := u/bands*k.width, u%bands*band
		_, width := m.panel(row)
		if n == 1 && k.rows[m.dtype] != nil && u+4 <= to && row+4*k.width <= m.Rows {
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

// part is the panel from a row on, or four panels, times so many rows of x.
func (m *Matrix) part(out, x []float32, row, width, rows int, add bool) {
	at, _ := m.panel(row)
	if m.scales == nil && row+width <= m.Rows {
		m.sums(&out[0], m.Rows, x, at, width, rows, add)
		return
	}
	tmp := rooms.Get().(*room)
	m.sums(&tmp[0], width, x, at, width, rows, false)
	for r := range rows {
		to, from := out[r*m.Rows:][:min(width, m.Rows-row)], tmp[r*width:]
		for i := range to {
			v := from[i]
			if m.scales != nil {
				v *= m.scales[row+i]
			}
			if add {
				v += to[i]
			}
			to[i] = v
		}
	}
	rooms.Put(tmp)
}

// sums is part without scales, into rows that are stride apart and have room for the panel's whole width.
func (m *Matrix) sums(out *float32, stride int, x []float32, at, width, rows int, add bool) {
	if width > m.kernel.width {
		m.kernel.rows[m.dtype](out, factors(add), &x[0], &m.data[at], m.Cols)
		return
	}
	f, step := m.kernel.blocks[m.dtype][width/m.kernel.step-1], depth
	if rows < 6 {
		step = m.Cols // nothing comes back to it
	}
	for i := 0; i < m.Cols; i += step {
		f(out, stride, factors(add || i > 0), &x[i], m.Cols, &m.data[at+i*width*m.size], width, rows, min(step, m.Cols-i))
	}
}
