package product

import (
	"encoding/binary"
	"fmt"

	"github.com/ferrumkv/ferrumkv/backend"
)

// PackBytes is Pack from the bytes of a file, little-endian and at any address, which it retains, or copies without decoding
// them where the kernel has panels. Then it calls share once, which calls f for parts of [0, n) that together are all of it, possibly on
// several goroutines.
func PackBytes(dtype backend.DType, rows, cols int, data []byte, share func(n int, f func(from, to int))) *Matrix {
	return packBytes(chosen(), dtype, rows, cols, data, share)
}

func packBytes(k *kernel, dtype backend.DType, rows, cols int, data []byte, share func(n int, f func(from, to int))) *Matrix {
	m := &Matrix{Rows: rows, Cols: cols, Type: dtype, kernel: k}
	if rows < 1 || cols < 1 || sizes[dtype] == 0 || len(data) != rows*m.row() {
		panic(fmt.Sprintf("product: a matrix of %dx%d in %d bytes as %v", rows, cols, len(data), dtype))
	}
	if m.numbers = k.numbers[dtype]; m.numbers != nil {
		m.codes, m.data = codesOfNumbers[dtype], data
		return m
	}
	m.data = make([]byte, (rows+k.step-1)/k.step*k.step*m.row())
	share((rows+k.width-1)/k.width, func(from, to int) {
		for panel := from; panel < to; panel++ {
			m.copyPanel(panel*k.width, data)
		}
	})
	return m
}

// copyPanel fills the panel that begins with a row. It goes by some columns at a time, of which what it writes stays in the first cache.
func (m *Matrix) copyPanel(first int, data []byte) {
	const some = 64
	size := sizes[m.Type]
	at, width := m.panel(first)
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
