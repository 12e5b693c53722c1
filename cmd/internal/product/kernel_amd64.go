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

// native is the kernels of kernels/asm/amd64 that this processor runs.
func native() (out []*kernel) {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return nil
	}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI { // as in backend/cpu
		out = append(out, &kernel{name: "avx512", speed: 64, step: 16, width: 64, blocks: [backend.NumDTypes][]block{
			backend.F32:  {mul16F32AVX512, mul32F32AVX512, mul48F32AVX512, mul64F32AVX512},
			backend.F16:  {mul16F16AVX512, mul32F16AVX512, mul48F16AVX512, mul64F16AVX512},
			backend.BF16: {mul16BF16AVX512, mul32BF16AVX512, mul48BF16AVX512, mul64BF16AVX512},
		}, lanes: 8, tile: tileAVX2, fold: foldAVX2, formats: formatsAVX2})
	}
	avx2 := &kernel{name: "avx2", speed: 40, step: 16, width: 16, blocks: [backend.NumDTypes][]block{
		backend.F32: {mul16F32AVX2}, backend.F16: {mul16F16AVX2}, backend.BF16: {mul16BF16AVX2},
	}, lanes: 8, tile: tileAVX2, fold: foldAVX2, formats: formatsAVX2}
	avx2.rows[backend.F32], avx2.rows[backend.F16], avx2.rows[backend.BF16] = row64F32AVX2, row64F16AVX2, row64BF16AVX2
	return append(out, avx2)
}
