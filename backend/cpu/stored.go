package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// stored is rows of dim elements back to back, as memory holds them, and the scales
// that go with them (see backend.DType.Scales): those of each row, one row's after
// another's, or those that all of them share.
type stored struct {
	dt     backend.DType
	dim    int
	data   []byte
	scales []uint32 // also those that are float32, as bits
	ahead  *byte    // rows that will be wanted next, as many as these, nil: unknown
}

// rows is how many rows there are.
func (s *stored) rows() int { return len(s.data) * 8 / s.dt.Bits() / s.dim }

// row is row i alone.
func (s *stored) row(i int) stored {
	one := *s
	bytes := s.dim * s.dt.Bits() / 8
	one.data = s.data[i*bytes:][:bytes]
	if words := s.dt.Groups(s.dim); words > 0 {
		one.scales = s.scales[i*words:][:words]
	}
	return one
}

// spoil makes rows of a quantized type read as NaN, where scales are not shared
// with others.
func (s *stored) spoil() {
	switch s.dt {
	case backend.FP8E4M3, backend.FP8E5M2:
		for i := range s.data {
			s.data[i] = quant.FP8(s.dt, float32(math.NaN()))
		}
	case backend.Int8:
		for i := range s.scales {
			s.scales[i] = math.Float32bits(float32(math.NaN()))
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
