//go:build !noasm

package product

import (
	"github.com/ferrumkv/ferrumkv/backend"
	"golang.org/x/sys/cpu"
)

// formatsOf is what is fast for weights as files store them, with the tiles of a tier.
func formatsOf(tileOf32, tileOf256, tileWithMins tile) map[string]format {
	one32, many32 := rounded{bytesOf32AVX2, 64}, rounded{integersOf32AVX2, 96}
	one256, many256 := rounded{bytesOf256AVX2, 320}, rounded{integersOf256AVX2, 576}
	of32 := layout{one32, many32, tileOf32, 96}
	of256 := layout{one256, many256, tileOf256, 544}
	mins := layout{one256, many256, tileWithMins, 608}
	return map[string]format{
		"Q8_0":   {of32, rowQ80AVX2, wordsQ80AVX2},
		"Q4_0":   {of32, rowQ40AVX2, wordsQ40AVX2},
		"Q5_0":   {of32, rowQ50AVX2, wordsQ50AVX2},
		"IQ4_NL": {of32, rowIQ4NLAVX2, wordsIQ4NLAVX2},
		"MXFP4":  {of32, rowMXFP4AVX2, wordsMXFP4AVX2},
		"Q4_K":   {mins, rowQ4KAVX2, wordsQ4KAVX2},
		"Q5_K":   {mins, rowQ5KAVX2, wordsQ5KAVX2},
		"Q6_K":   {mins, rowQ6KAVX2, wordsQ6KAVX2},
		"IQ4_XS": {of256, rowIQ4XSAVX2, wordsIQ4XSAVX2},
	}
}

// native is the kernels of kernels/asm/amd64 that this processor runs.
func native() []*kernel {
	x := &cpu.X86
	if !x.HasAVX2 || !x.HasFMA || !x.HasF16C {
		return nil
	}
	avx2 := &kernel{name: "avx2", speed: 40, lanes: 8, tile: tileAVX2, fold: foldAVX2, formats: formatsOf(tileOf32AVX2, tileOf256AVX2, tileWithMinsAVX2),
		numbers: [backend.NumDTypes]*numbers{
			backend.F32: {rowF32AVX2, decodeF32AVX2}, backend.F16: {rowF16AVX2, decodeF16AVX2}, backend.BF16: {rowBF16AVX2, decodeBF16AVX2},
		}}
	if !x.HasAVX512F || !x.HasAVX512BW || !x.HasAVX512DQ || !x.HasAVX512VL || !x.HasAVX512VNNI { // those of backend/cpu, and one more
		return []*kernel{avx2}
	}
	vnni := *avx2 // which computes the same bits
	vnni.name, vnni.formats = "avx512", formatsOf(tileOf32VNNI, tileOf256VNNI, tileWithMinsVNNI)
	return []*kernel{&vnni, avx2}
}
