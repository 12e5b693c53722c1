//go:build !noasm

package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/quant"
)

// quantizeNEON sets encode of the quantized types to assembly.
func (k *kernels) quantizeNEON() {
	for dt, encode := range (perCode[func(dst stored, src []float32, saturate bool) bool]{
		signed8: encodeRowsNEON, unsigned8: encodeRowsNEON, unsigned4: encodeRowsNEON, wide4: encodeRowsNEON, channels4: encodeChannelsNEON,
		float4:     encodeMXNEON,
		float8e4m3: finiteCodes(encodeFP8E4M3NEON).encode, float8e5m2: finiteCodes(encodeFP8E5M2NEON).encode,
	}).table() {
		if encode != nil {
			k.encode[dt] = encode
		}
	}
}

// finiteCodes is a kernel that reports whether values are finite, of one that is the largest of their
// bits without signs.
func finiteCodes(kernel func(codes *byte, x *float32, scale float32, n int) int) fp8Store {
	return func(codes *byte, x *float32, scale float32, n int) bool {
		return kernel(codes, x, scale, n) < 0x7f800000
	}
}

// encodeRowsNEON leaves to Go what is not finite and is to be made so.
func encodeRowsNEON(dst stored, src []float32, saturate bool) bool {
	if !dst.inVectors() {
		return encodeRows(dst, src, saturate)
	}
	rows, group, bits := dst.n, dst.group(), dst.dt.Bits()
	all, codes, scales := src[:rows*dst.dim], dst.data, dst.scales[:rows*dst.dt.ScaleWords(dst.dim)]
	for src = all; len(src) > 0; scales = scales[1:] {
		n := min(group, (len(src)-1)%dst.dim+1) // of the group, or what is left of the row
		var low, high float32
		if spanNEON(&src[0], n, &low, &high) >= 0x7f800000 {
			return saturate && encodeRows(dst, all, true)
		}
		scales[0] = encodeGroup(dst.dt, codes[:n*bits/8], src[:n], low, high)
		src, codes = src[n:], codes[n*bits/8:]
	}
	return true
}

// encodeGroup stores values from low to high, and is their scale.
func encodeGroup(dt backend.DType, codes []byte, x []float32, low, high float32) (scale uint32) {
	step, zero, lowest, highest := float32(0), float32(0), float32(-127), float32(127)
	if dt.Coding().Code == backend.Signed {
		step = quant.ScaleInt8(max(-low, high))
		scale = math.Float32bits(step)
	} else {
		bits := dt.Bits()
		word := quant.WordOf(low, high, bits)
		step, zero = word.Step(), word.Zero(bits)
		lowest, highest, scale = 0, float32(int(1)<<bits-1), uint32(word)
	}
	switch {
	case step == 0:
		clear(codes)
	case dt.Bits() == 8:
		codes8NEON(&codes[0], &x[0], len(x), step, zero, lowest, highest)
	default:
		codes4NEON(&codes[0], &x[0], len(x), step, zero, lowest, highest)
	}
	return scale
}

// encodeMXNEON leaves to Go what is not finite and is to be made so.
func encodeMXNEON(dst stored, src []float32, saturate bool) bool {
	if !dst.inVectors() {
		return encodeRows(dst, src, saturate)
	}
	dim, group, words := dst.dim, dst.group(), dst.dt.ScaleWords(dst.dim)
	all, scales := src[:dst.n*dim], dst.scales[:dst.n*words]
	for at := 0; at < len(all); {
		row, first := at/dim, at%dim
		n := min(group, dim-first)
		var low, high float32
		largest := spanNEON(&all[at], n, &low, &high)
		if largest >= 0x7f800000 {
			return saturate && encodeRows(dst, all, true)
		}
		e := quant.ExponentMX(math.Float32frombits(uint32(largest)))
		quant.PutExponent(scales[row*words:], first/group, e)
		codesE2M1NEON(&dst.data[at/2:][:n/2][0], &all[at], n, quant.ScaleMX(254-e))
		at += n
	}
	return true
}

// encodeChannelsNEON leaves to Go what is not finite and is to be made so. It takes some channels of all
// rows at a time.
func encodeChannelsNEON(dst stored, src []float32, saturate bool) bool {
	if !dst.inVectors() || dst.n == 0 {
		return encodeChannels(dst, src, saturate)
	}
	const most = 128
	var low, high, steps, zeros [most]float32
	dim, words := dst.dim, dst.scales[:dst.dim]
	src = src[:dst.n*dim]
	_ = dst.data[len(src)/2-1]
	for first := 0; first < dim; first += most {
		n := min(most, dim-first)
		if channelSpansNEON(&low[0], &high[0], &src[first], dim, n, dst.n) >= 0x7f800000 {
			return saturate && encodeChannels(dst, src, true)
		}
		for i := range n {
			word := quant.WordOf(low[i], high[i], 4)
			words[first+i], steps[i], zeros[i] = uint32(word), word.Step(), word.Zero(4)
			if steps[i] == 0 {
				steps[i], zeros[i] = float32(math.Inf(1)), 0 // code 0, whatever the value
			}
		}
		for at := first; at < len(src); at += dim {
			channelCodesNEON(&dst.data[at/2], &src[at], &steps[0], &zeros[0], n)
		}
	}
	return true
}
