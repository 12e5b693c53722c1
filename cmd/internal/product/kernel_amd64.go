//go:build !noasm

package product

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"golang.org/x/sys/cpu"
)

// formatsAVX2 is what is fast for weights as files store them.
var formatsAVX2 = func() map[string]format {
	of32 := layout{roundOf32AVX2, tileOf32AVX2, 96, 96}
	of256 := layout{roundOf256AVX2, tileOf256AVX2, 544, 544}
	mins := layout{roundWithMinsAVX2, tileWithMinsAVX2, 576, 608}
	return map[string]format{
		"Q8_0":   {of32, rowQ80AVX2, wordsQ80AVX2},
		"Q4_0":   {of32, rowQ40AVX2, wordsQ40AVX2},
		"Q5_0":   {of32, rowQ50AVX2, wordsQ50AVX2},
		"IQ4_NL": {of32, rowIQ4NLAVX2, wordsIQ4NLAVX2},
		"MXFP4":  {of32, rowMXFP4AVX2, wordsMXFP4AVX2},
		"Q4_K":   {mins, rowQ4KAVX2, wordsQ4KAVX2},
		"Q5_K":   {mins, rowQ5KAVX2, wordsQ5KAVX2},
		"Q6_K":   {of256, rowQ6KAVX2, wordsQ6KAVX2},
		"IQ4_XS": {of256, rowIQ4XSAVX2, wordsIQ4XSAVX2},
	}
}()

// native is the kernel of kernels/asm/amd64, if this processor runs it.
func native() []*kernel {
	if x := &cpu.X86; !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return nil
	}
	return []*kernel{{name: "avx2", speed: 40, lanes: 8, tile: tileAVX2, fold: foldAVX2, formats: formatsAVX2, numbers: [backend.NumDTypes]*numbers{
		backend.F32: {rowF32AVX2, decodeF32AVX2}, backend.F16: {rowF16AVX2, decodeF16AVX2}, backend.BF16: {rowBF16AVX2, decodeBF16AVX2},
	}}}
}
