//go:build !noasm

package cpu

import (
	"math"
	"unsafe"

	"github.com/ferrumkv/ferrumkv/backend"
)

// exactDim is the largest dim for which the products of codes, and of sums with zero points, add
// up to 32 bits.
const exactDim = math.MaxInt32 / (127 * (1<<15 + 1<<8))

// scoreInt8 is kernels.scoreInt8. The scores of Int8 and Int8Asym are those of the kernels in
// Go, bit for bit. Of the other types, the products of each group of codes are added as
// integers and those of groups as float32, in another order.
func (s *scorers) scoreInt8(dst []float32, stride int, q, keys stored, w *integers) {
	scratch := of[float32](w.codes)
	if keys.dim%unit != 0 || keys.dim > exactDim || len(scratch) < s.room(&keys) {
		portable.scoreInt8[keys.dt](dst, stride, q, keys, w)
		return
	}
	n, rows := keys.rows(), q.rows()
	var sums []float32
	if n > 0 && n < keysAtLeast {
		keys, sums, scratch = keys.repeated(scratch)
	}
	for r := 0; r < rows && n > 0; r += rowsAtOnce {
		some := q.between(r, min(r+rowsAtOnce, rows))
		if sums == nil {
			s.multiply(dst[r*stride:], stride, some, keys, scratch)
			keys.ahead = nil // once is enough
			continue
		}
		s.multiply(sums, keysAtLeast, some, keys, scratch)
		copyRows(dst[r*stride:], stride, sums, n, some.rows())
	}
}

// room is how many float32 scoreInt8 works in.
func (s *scorers) room(keys *stored) int {
	dim, n := keys.dim, max(keys.rows(), keysAtLeast)
	size := 2*rowsAtOnce + rowsAtOnce*keysAtLeast + keysAtLeast*(dim*keys.dt.Bits()/32+keys.dt.Groups(dim))
	if keys.dt.Bits() == 4 {
		size += rowsAtOnce*s.splitRow(dim)/4 + 2*s.split/groupAtOnce + 2*n*max(ceilDiv(dim, groupAtOnce), 2*keys.dt.Groups(dim))
	}
	return size
}

// groupAtOnce is the codes of 4 bits that share a step in assembly.
const groupAtOnce = 32

// splitRow is the bytes that splitRows makes of a row.
func (s *scorers) splitRow(dim int) int { return ceilDiv(dim, s.split) * s.splitBytes }

// multiply is scoreInt8 for rows and keys of which there are as many as a scorer takes.
func (s *scorers) multiply(dst []float32, stride int, q, keys stored, scratch []float32) {
	dim, n, rows := keys.dim, keys.rows(), q.rows()
	row := dim * keys.dt.Bits() / 8
	_, _, _ = dst[(rows-1)*stride+n-1], keys.data[n*row-1], q.data[rows*dim-1]
	factors, scratch := scratch[:2*rowsAtOnce], scratch[2*rowsAtOnce:]
	copy(factors, floatsOf(q.scales[:rows]))
	x, qRow := (*float32)(unsafe.Pointer(&q.data[0])), dim
	words := keys.dt.Groups(dim)
	scales, scale := &floatsOf(keys.scales[:n*words])[0], 4*words
	if keys.dt.Bits() == 8 {
		s.rowSums((*int32)(unsafe.Pointer(&factors[rowsAtOnce])), &q.data[0], dim, rows)
	} else {
		times := 1
		if keys.dt == backend.Int4G64 {
			times = 2
		}
		pairs := scratch[:2*n*words*times]
		s.unpack(pairs, keys.scales[:n*words], 4, times)
		scales, scale = &pairs[0], 8*words*times
		qRow = s.splitRow(dim)
		split := bytesOf(scratch[len(pairs)+2*s.split/groupAtOnce:])[:rows*qRow]
		s.splitRows(&split[0], &q.data[0], dim, rows)
		x = (*float32)(unsafe.Pointer(&split[0]))
	}
	ahead, later := keys.next(), keys.beyond()
	s.products[keys.dt](&dst[0], stride, rows, n, x, qRow, &factors[0], &keys.data[0], row, scales, scale, 0, ahead, later)
}
