package product

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Panels are how numbers lie for kernels that have blocks: as many rows as a kernel keeps sums of. A panel has the weights of its first
// column for all of its rows, then those of the second column, and so on. The last one is filled with zeros.

const (
	maxWidth = 16  // the most rows of any kernel's panel
	band     = 48  // rows of x that pass over a panel before the next ones do
	depth    = 512 // columns of a panel that stay in a cache meanwhile
)

// block adds a [rows, depth] times a panel b to c [rows, width of the panel], or
// where shrink, which points to ones, is nil sets c to that. Strides are in elements. Products are added one after the other.
type block func(c *float32, cStride int, shrink, a *float32, aStride int, b *byte, bStride, rows, depth int)

// panels is how many there are.
func (m *Matrix) panels() int { return (m.Rows + m.kernel.width - 1) / m.kernel.width }

// copyPanels sets m's panels to rows of numbers, as PackBytes says.
func (m *Matrix) copyPanels(data []byte, share func(n int, f func(from, to int))) {
	m.data = make([]byte, m.panels()*m.kernel.width*m.row())
	share(m.panels(), func(from, to int) {
		for panel := from; panel < to; panel++ {
			m.copyPanel(panel*m.kernel.width, data)
		}
	})
}

// copyPanel fills the panel that begins with a row. It goes by some columns at a time, of which what it writes stays in the first cache.
func (m *Matrix) copyPanel(first int, data []byte) {
	const some = 64
	size := sizes[m.Type]
	width := m.kernel.width
	at := first * m.row()
	for col := 0; col < m.Cols; col += some {
		n := min(some, m.Cols-col)
		for r := range min(width, m.Rows-first) {
			src := data[((first+r)*m.Cols+col)*size:][:n*size]
			dst := m.data[at+(col*width+r)*size:]
			if size == 2 {
				for i := range n {
					binary.NativeEndian.PutUint16(dst[2*i*width:], binary.LittleEndian.Uint16(src[2*i:]))
				}
			} else {
				for i := range n {
					binary.NativeEndian.PutUint32(dst[4*i*width:], binary.LittleEndian.Uint32(src[4*i:]))
				}
			}
		}
	}
}

// rowOfPanel sets dst to a row's weights.
func (m *Matrix) rowOfPanel(dst []float32, r int) {
	width := m.kernel.width
	first := r / width * width
	for i := range dst {
		switch p := unsafe.Pointer(&m.data[first*m.row()+(i*width+r-first)*sizes[m.Type]]); m.Type {
		case backend.F32:
			dst[i] = *(*float32)(p)
		case backend.F16:
			dst[i] = quant.FromF16(*(*uint16)(p))
		default:
			dst[i] = quant.FromBF16(*(*uint16)(p))
		}
	}
}

// panelRoom is where products go that have more columns than the result.
type panelRoom [band * maxWidth]float32

var panelRooms = sync.Pool{New: func() any { return new(panelRoom) }}

// ones are the factors of what is there already.
var ones = func() (all [band]float32) {
	for i := range all {
		all[i] = 1
	}
	return all
}()

// factors is those of what is there already; none where it does not count.
func factors(add bool) *float32 {
	if add {
		return &ones[0]
	}
	return nil
}

// mulPanels is Mul of panels.
func (m *Matrix) mulPanels(out, x []float32, n int, add bool, from, to int) {
	bands := (n + band - 1) / band
	for u := from; u < to; u++ {
		row, first := u/bands*m.kernel.width, u%bands*band
		m.mulPanel(out[first*m.Rows+row:], x[first*m.Cols:], row, min(n-first, band), add)
	}
}

// mulPanel is the panel from a row on, times some rows of x.
func (m *Matrix) mulPanel(out, x []float32, row, rows int, add bool) {
	width := m.kernel.width
	if row+width <= m.Rows {
		m.sums(&out[0], m.Rows, x, row, rows, add)
		return
	}
	tmp := panelRooms.Get().(*panelRoom)
	m.sums(&tmp[0], width, x, row, rows, false)
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
	panelRooms.Put(tmp)
}

// sums is mulPanel into rows that are stride apart and have room for the panel's whole width.
func (m *Matrix) sums(out *float32, stride int, x []float32, row, rows int, add bool) {
	width, step := m.kernel.width, depth
	if rows < 6 {
		step = m.Cols // nothing comes back to it
	}
	for i := 0; i < m.Cols; i += step {
		m.kernel.blocks[m.Type](out, stride, factors(add || i > 0), &x[i], m.Cols, &m.data[row*m.row()+i*width*sizes[m.Type]], width, rows, min(step, m.Cols-i))
	}
}
