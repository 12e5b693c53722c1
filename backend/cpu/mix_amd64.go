//go:build !noasm

package cpu

import "github.com/ferrumkv/ferrumkv/backend"

// mixer is an assembly function for kernels.mix: n values of a dim that is a multiple of 16.
// Words of a value are pairs (see scorers.unpack), scale bytes behind those of the value
// before; a scale of a whole value is in its factors. As many bytes as it reads of values
// it fetches from ahead on, and into the second-level cache those that are later bytes behind.
type mixer func(acc, shrink, p *float32, stride int, values *byte, n, dim, rows int, scales *float32, scale int, ahead *byte, later int)

// mixers is the assembly of a tier.
type mixers struct {
	by [types]mixer
	// fold sets dst to rows of p, without what lies between them, times the scales.
	fold func(dst, p *float32, stride, n, rows int, scales *float32)
	*scorers
}

// mixersOf is that of each tier.
var mixersOf = map[string]*mixers{"avx512": {
	by: [types]mixer{
		backend.F32: mixF32AVX512, backend.F16: mixF16AVX512, backend.BF16: mixBF16AVX512, backend.Int8: mixInt8AVX512,
		backend.Int8Asym: mixInt8AsymAVX512, backend.FP8E4M3: mixE4M3AVX512, backend.FP8E5M2: mixE5M2AVX512,
		backend.Int4: mixInt4AVX512, backend.Int4G64: mixInt4G64AVX512,
	},
	fold: foldAVX512, scorers: scorersOf["avx512"],
}, "avx2": {
	by: [types]mixer{
		backend.F32: mixF32AVX2, backend.F16: mixF16AVX2, backend.BF16: mixBF16AVX2, backend.Int8: mixInt8AVX2,
		backend.Int8Asym: mixInt8AsymAVX2, backend.FP8E4M3: mixE4M3AVX2, backend.FP8E5M2: mixE5M2AVX2,
		backend.Int4: mixInt4AVX2, backend.Int4G64: mixInt4G64AVX2,
	},
	fold: foldAVX2, scorers: scorersOf["avx2"],
}}

// mixes sets mix to that of k's tier.
func (k *kernels) mixes() {
	m := mixersOf[k.name]
	k.exact = false
	for dt, by := range m.by {
		if by != nil {
			k.mix[dt] = m.mix
		}
	}
}

// mix is kernels.mix. scratch is for as many values.
func (m *mixers) mix(acc, shrink, p []float32, stride int, values stored, scratch []float32) {
	dim, rows := values.dim, len(shrink)
	if dim%unit != 0 || len(values.data) == 0 || rows == 0 {
		portable.mix[values.dt](acc, shrink, p, stride, values, scratch)
		return
	}
	n := len(values.data) / (dim * values.dt.Bits() / 8)
	_, _ = acc[rows*dim-1], p[(rows-1)*stride+n-1]
	by := m.by[values.dt]
	ahead, later := values.next(), values.beyond()
	switch values.dt {
	case backend.Int8, backend.FP8E4M3, backend.FP8E5M2:
		scales, _, _, _ := m.scales(&values, scratch)
		folded := scratch[n:] // FP8 has its scales before
		for most := len(folded) / n; rows > 0; {
			some := min(rows, most)
			m.fold(&folded[:some*n][0], &p[0], stride, n, some, scales)
			by(&acc[0], &shrink[0], &folded[0], n, &values.data[0], n, dim, some, nil, 0, ahead, later)
			if rows -= some; rows > 0 {
				acc, shrink, p = acc[some*dim:], shrink[some:], p[some*stride:]
				ahead, later = &values.data[0], 0
			}
		}
	case backend.Int8Asym, backend.Int4, backend.Int4G64:
		scales, scale, _, _ := m.scales(&values, scratch)
		by(&acc[0], &shrink[0], &p[0], stride, &values.data[0], n, dim, rows, scales, scale, ahead, later)
	default:
		by(&acc[0], &shrink[0], &p[0], stride, &values.data[0], n, dim, rows, nil, 0, ahead, later)
	}
}
