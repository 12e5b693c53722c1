package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// stored is rows of dim elements back to back, as memory holds them, and the scales
// that go with them (see backend.DType.Scales): those of each row, one row's after
// another's, or those that all of them share. Where wide is set a row has so many elements, of which the first
// dim count, and scales for all of them: the values of a latent cache, which only what mixes reads. Assembly reads it: isa.go of kernels/asm/amd64 has
// the places of fields.
type stored struct {
	data   []byte
	scales []uint32 // also those that are float32, as bits
	// Rows that will be wanted next, as many as these, and those that will be after them; nil:
	// unknown.
	ahead, later *byte
	wanted       *uint32  // and the scales of the latter, where rows have their own
	factors      *float32 // what a kernel has made of the scales
	n            int      // rows
	dim          int
	dt           backend.DType
	factor       float32 // of the head, where that goes with the scales of rows
	wide         int     // elements from a row to the next; 0: dim
}

// pitch is how many elements lie from a row to the next.
func (s *stored) pitch() int {
	if s.wide > 0 {
		return s.wide
	}
	return s.dim
}

// row is row i alone.
func (s *stored) row(i int) stored {
	one, from := *s, i*s.pitch()*s.dt.Bits()/8
	one.data, one.n, one.wide = s.data[from:][:s.dim*s.dt.Bits()/8], 1, 0
	if words := s.dt.ScaleWords(s.dim); words > 0 {
		one.scales = s.scales[i*s.dt.ScaleWords(s.pitch()):][:words]
	}
	return one
}

// decode sets dst to the rows, back to back.
func (s *stored) decode(dst []float32, by func(dst []float32, src stored)) {
	if s.wide == 0 {
		by(dst, *s)
		return
	}
	for i := range s.n {
		by(dst[i*s.dim:][:s.dim], s.row(i))
	}
}

// group is how many elements of a row share a scale.
func (s *stored) group() int {
	if g := s.dt.Coding().Group; g > 0 {
		return g
	}
	return s.dim
}

// next is what a kernel fetches while it reads rows: what is wanted next, or, where that is
// unknown, what it has anyway.
func (s *stored) next() *byte {
	if s.ahead != nil {
		return s.ahead
	}
	return &s.data[0]
}

// setNaN makes rows of a quantized type read as NaN, where scales are not shared
// with others.
func (s *stored) setNaN() {
	switch c := s.dt.Coding(); {
	case c.Scope == backend.ByHead:
		for i := range s.data {
			s.data[i] = quant.FP8(s.dt, float32(math.NaN()))
		}
	case c.Scale == backend.Factor:
		for i := range s.scales {
			s.scales[i] = math.Float32bits(float32(math.NaN()))
		}
	case c.Scale.PerWord() > 1:
		number := uint8(quant.NaNExponent)
		if c.Scale == backend.Minifactors {
			number = quant.NaNFactor
		}
		words := s.dt.ScaleWords(s.dim)
		for row := range s.n {
			for i := range ceilDiv(s.dim, c.Group) {
				quant.PutExponent(s.scales[row*words:], i, number)
			}
		}
	default:
		for i := range s.scales {
			s.scales[i] = uint32(quant.NaN)
		}
	}
}

// hadamard turns rows of dim elements.
func hadamard(rows []float32, dim int) {
	for ; len(rows) > 0; rows = rows[dim:] {
		quant.Hadamard(rows[:dim])
	}
}
