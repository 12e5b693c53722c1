// Package product multiplies rows of activations, as float32, by matrices of weights, which stay as they are stored, such as in a part of a file that
// is mapped into memory: numbers in f32, f16 and bf16 (PackBytes), and codes of other types (PackCodes). Kernels without functions
// for the former pack them into panels.
//
// Numbers, and codes of types without functions of their own, become float32 without rounding, and products are added up in float32. So
// a result has the same bits as that of the same weights stored as f32. Types with functions of their own are multiplied in integers,
// by activations that are rounded to 8 or 24 bits (see layout). Either way a result has the same bits whatever is computed beside it, and
// however the work is divided. Between kernels bits differ, but for those for AVX2 and AVX-512.
package product

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Matrix is weights [Rows, Cols]. It is not changed once it is packed, so it is safe for concurrent use.
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

func pack(k *kernel, dtype backend.DType, rows, cols int, data []float32) *Matrix {
	all := make([]byte, 0, len(data)*sizes[dtype])
	for _, v := range data {
		switch dtype {
		case backend.F32:
			all = binary.LittleEndian.AppendUint32(all, math.Float32bits(v))
		case backend.F16:
			all = binary.LittleEndian.AppendUint16(all, quant.F16(v))
		case backend.BF16:
			all = binary.LittleEndian.AppendUint16(all, quant.BF16(v))
		}
	}
	return packBytes(k, dtype, rows, cols, all, func(n int, f func(from, to int)) { f(0, n) })
}

// PackBytes is Pack from the bytes of a file, little-endian and at any address, which it retains, or copies without decoding
// them where the kernel has panels. In that case it calls share once, which calls f for parts of [0, n) that together are all of it, possibly on
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
	} else {
		m.copyPanels(data, share)
	}
	return m
}

var sizes = [backend.NumDTypes]int{backend.F32: 4, backend.F16: 2, backend.BF16: 2}

// Kernel names the loops that it is packed for, as backend/cpu calls its own.
func (m *Matrix) Kernel() string { return m.kernel.name }

// Bytes is how large the weights are, with the rows that fill the last panel where there are panels.
func (m *Matrix) Bytes() int { return len(m.data) }

// row is how many bytes a row has.
func (m *Matrix) row() int { return m.Cols * sizes[m.Type] }

// Row sets dst [Cols] to a row's weights.
func (m *Matrix) Row(dst []float32, r int) {
	if m.codes != nil {
		m.decode(dst[:m.Cols], r, 0)
	} else {
		m.rowOfPanel(dst[:m.Cols], r)
	}
}

// Units is how many parts the product with n rows can be divided into.
func (m *Matrix) Units(n int) int {
	if m.codes != nil {
		return m.codesUnits(n)
	}
	return m.panels() * ((n + band - 1) / band)
}

// Nanoseconds is about how long the product with n rows takes one thread.
func (m *Matrix) Nanoseconds(n int) int {
	took := n * m.Rows * m.Cols / m.kernel.speed
	if m.codes != nil {
		took *= m.times()
	}
	if m.codes != nil && m.codes.Block > 1 && m.format.row == nil {
		took += m.Rows * m.Cols * ((n + many - 1) / many) // decoded in Go
	}
	return took
}

// Mul sets out [n, Rows] to x [n, Cols] times the transpose of m, or with add adds that. Of the product it computes the
// units [from, to), which are disjoint parts of out. It retains nothing, and allocates nothing once it is warm.
func (m *Matrix) Mul(out, x []float32, n int, add bool, from, to int) {
	out, x = out[:n*m.Rows], x[:n*m.Cols]
	if m.codes != nil {
		m.mulCodes(out, x, n, add, from, to)
	} else {
		m.mulPanels(out, x, n, add, from, to)
	}
}
