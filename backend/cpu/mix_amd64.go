//go:build !noasm

package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// mixer is an assembly function for one storage type.
type mixer func(acc, shrink, p *float32, stride int, values *byte, n, dim, rows int, ahead *byte)

// mixersOf is the assembly of each tier.
var mixersOf = map[string]map[backend.DType]mixer{
	"avx512": {backend.F32: mixF32AVX512, backend.F16: mixF16AVX512, backend.BF16: mixBF16AVX512},
	"avx2":   {backend.F32: mixF32AVX2, backend.F16: mixF16AVX2, backend.BF16: mixBF16AVX2},
}

// mixes sets mix to that of k's tier.
func (k *kernels) mixes() {
	k.exact = false
	for dt, f := range mixersOf[k.name] {
		k.mix[dt] = f.mix
	}
}

func (f mixer) mix(acc, shrink, p []float32, stride int, values stored, scratch []float32) {
	dim, n, rows := values.dim, values.rows(), len(shrink)
	if dim%unit != 0 || n == 0 || rows == 0 {
		portable.mix[values.dt](acc, shrink, p, stride, values, scratch)
		return
	}
	_, _ = acc[rows*dim-1], p[(rows-1)*stride+n-1]
	f(&acc[0], &shrink[0], &p[0], stride, &values.data[0], n, dim, rows, values.next())
}

// next is where to fetch from: the rows that come next, or these, which costs nothing.
func (s *stored) next() *byte {
	if s.ahead == nil {
		return &s.data[0]
	}
	return s.ahead
}
