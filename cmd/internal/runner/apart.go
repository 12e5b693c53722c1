package runner

import (
	"maps"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// Types of safetensors whose scales are in tensors of their own.
const (
	float8   = "F8_E4M3" // numbers of 8 bits, in blocks of rows and columns that share a scale
	mxfp4    = "MXFP4 with exponents apart"
	mxfp4Run = 32 // elements of a row that share an exponent
)

var encodingsApart = map[string]encoding{
	float8: {1, 1, backend.F32, func(dst []float32, src []byte) { quant.DecodeFP8(backend.FP8E4M3, dst, src, 1) }},
	mxfp4:  {mxfp4Run, mxfp4Run / 2, backend.F32, func(dst []float32, src []byte) { quant.DecodeMX(dst, src, exponent1, mxfp4Run) }},
	"U8":   {group: 1, bytes: 1}, // of which mxfp4 is made
}

var exponent1 = []uint32{127} // that of 1

// apart gives tensors the scales that files have beside them: X_blocks and X_scales become X.weight in MXFP4, and X.weight in
// F8_E4M3 has X.weight_scale_inv, one for each block of rows and columns.
func (a *archive) apart(block [2]int) {
	for _, name := range slices.Sorted(maps.Keys(a.tensors)) {
		t := a.tensors[name]
		if stem, ok := strings.CutSuffix(name, "_blocks"); ok && t.encoding == "U8" {
			a.exponents(stem, t)
		} else if scales, ok := a.tensors[name+"_scale_inv"]; ok && t.encoding == float8 {
			a.factors(t, scales, block)
		}
	}
}

// exponents makes a tensor in MXFP4 of codes [..., cols/32, 16] and exponents [..., cols/32].
func (a *archive) exponents(stem string, t tensor) {
	scales := stem + "_scales"
	s, there := a.tensors[scales]
	a.need(there && s.encoding == "U8", "tensor "+scales, "is missing, or not of U8: tensor %s needs it", t.name)
	n := len(s.shape) - 1
	fits := n >= 0 && slices.Equal(t.shape, append(slices.Clone(s.shape), mxfp4Run/2))
	a.need(fits, "tensor "+scales, "has shape %v, and that of %s is %v: need the same and then %d", s.shape, t.name, t.shape, mxfp4Run/2)
	groups := s.shape[n]
	delete(a.tensors, t.name)
	delete(a.tensors, scales)
	a.need(a.tensors[stem+".weight"].name == "", "tensor "+stem+".weight", "is there beside %s", t.name)
	t.name, t.encoding, t.shape, t.run = stem+".weight", mxfp4, append(slices.Clone(s.shape[:n]), groups*mxfp4Run), mxfp4Run
	t.scale = func(row, col int) float32 { return quant.ScaleMX(s.data[row*groups+col/mxfp4Run]) }
	a.tensors[t.name] = t
}

// factors gives a matrix in F8_E4M3 its scales.
func (a *archive) factors(t, scales tensor, block [2]int) {
	a.support(len(t.shape) == 2, "it reads matrices of that type", "tensor type %s of shape %v (%s)", float8, t.shape, t.name)
	factors, want := a.decoded(scales), []int{}
	for i, n := range t.shape {
		if block[i] == 0 { // one for the whole matrix
			block[i] = max(n, 1)
			continue
		}
		want = append(want, (n+block[i]-1)/block[i])
	}
	one := len(want) == 0 && len(factors.data) == 1
	a.need(one || slices.Equal(factors.shape, want), "tensor "+scales.name, "has shape %v, need %v", factors.shape, want)
	perRow := max((t.shape[1]+block[1]-1)/block[1], 1)
	t.scale = func(row, col int) float32 { return factors.data[row/block[0]*perRow+col/block[1]] }
	t.run = common(common(t.shape[1], block[1]), 512) // which products decode at once
	a.tensors[t.name] = t
}

// common is the largest number that divides both.
func common(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
