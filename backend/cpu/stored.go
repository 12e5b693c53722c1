package cpu

import (
	"math"
	"unsafe"

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
	// Rows that will be wanted next, as many as these, and those that will be after them; nil:
	// unknown.
	ahead, later *byte
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

// group is how many elements of a row share a scale.
func (s *stored) group() int {
	if a, _ := quant.AffineOf(s.dt); a.Group > 0 {
		return a.Group
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

// beyond is how many bytes behind next that is which is wanted after it.
func (s *stored) beyond() int {
	if s.ahead == nil || s.later == nil {
		return 0
	}
	return int(uintptr(unsafe.Pointer(s.later)) - uintptr(unsafe.Pointer(s.ahead)))
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
