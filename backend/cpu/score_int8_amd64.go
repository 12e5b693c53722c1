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

// scoreInt8 is kernels.scoreInt8. The scores of codes of 8 bits are those of the kernels in
// Go, bit for bit. Of the other types, the products of each group of codes are added as
// integers and those of groups as float32, in another order.
func (s *scorers) scoreInt8(dst []float32, stride int, q stored, keys []stored, w *integers) {
	dt, dim, scratch := keys[0].dt, keys[0].dim, of[float32](w.codes)
	if dim%unit != 0 || dim > exactDim || len(scratch) < s.room(keys) {
		portable.scoreInt8[dt](dst, stride, q, keys, w)
		return
	}
	parts(dst, stride, q.n, keys, scratch, func(dst []float32, stride, from, to int, keys []stored, n int, scratch []float32) {
		for r := from; r < to; r += rowsAtOnce {
			s.multiply(dst[(r-from)*stride:], stride, q.between(r, min(r+rowsAtOnce, to)), keys, n, scratch)
			fetched(keys)
		}
	})
	if dt.Coding().Scale == backend.Exponents {
		rescore(dst, stride, q, keys, w)
	}
}

// rescore scores in Go keys of which some group has an exponent from 224 on: products with sums of codes,
// which count from the lowest one, may be infinities of both signs where their sum is finite.
func rescore(dst []float32, stride int, q stored, keys []stored, w *integers) {
	words := keys[0].dt.ScaleWords(keys[0].dim)
	for i := range keys {
		run := &keys[i]
		for j := range run.n {
			var most uint32 // the highest three bits of a byte are set where they are in one of its words
			for _, w := range run.scales[j*words:][:words] {
				most |= w & (w << 1) & (w << 2)
			}
			if most&0x80808080 != 0 {
				portable.scoreInt8[run.dt](dst[j:], stride, q, []stored{run.row(j)}, w)
			}
		}
		dst = dst[run.n:]
	}
}

// room is how many float32 scoreInt8 works in.
func (s *scorers) room(keys []stored) int {
	dt, dim, n := keys[0].dt, keys[0].dim, max(count(keys), keysAtLeast)
	size := 2*rowsAtOnce + rowsAtOnce*keysAtLeast + keysAtLeast*(dim*dt.Bits()/32+dt.ScaleWords(dim))
	if dt.Bits() == 4 {
		size += rowsAtOnce*s.splitRow(dim)/4 + 2*s.split/groupAtOnce + 2*n*max(ceilDiv(dim, groupAtOnce), 2*dt.ScaleWords(dim)) + beyondPairs
	}
	return size
}

// splitRow is the bytes that splitRows makes of a row.
func (s *scorers) splitRow(dim int) int { return ceilDiv(dim, s.split) * s.splitBytes }

// multiply is scoreInt8 for rows and n keys as a scorer takes them.
func (s *scorers) multiply(dst []float32, stride int, q stored, keys []stored, n int, scratch []float32) {
	dt, dim, rows := keys[0].dt, keys[0].dim, q.n
	inside(keys)
	_, _ = dst[(rows-1)*stride+n-1], q.data[rows*dim-1]
	factors, scratch := scratch[:2*rowsAtOnce], scratch[2*rowsAtOnce:]
	copy(factors, floatsOf(q.scales[:rows]))
	x, qRow := (*float32)(unsafe.Pointer(&q.data[0])), dim
	var scale int
	if dt.Bits() == 8 {
		s.rowSums((*int32)(unsafe.Pointer(&factors[rowsAtOnce])), &q.data[0], dim, rows)
		scale = asTheyAre(keys)
	} else {
		if dt.Coding().Scale == backend.Exponents { // codes count half steps from the lowest one
			scale, scratch = s.steps(keys, 0.5, -6, scratch)
		} else {
			scale, scratch = s.unpacked(keys, keys[0].group()/groupAtOnce, scratch)
		}
		qRow = s.splitRow(dim)
		split := bytesOf(scratch[2*s.split/groupAtOnce:])[:rows*qRow]
		s.splitRows(&split[0], &q.data[0], dim, rows)
		x = (*float32)(unsafe.Pointer(&split[0]))
	}
	s.products[dt](&dst[0], stride, rows, x, qRow, &factors[0], addressOf(keys), len(keys), dim*dt.Bits()/8, nil, scale, 0)
}
