//go:build !noasm

package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

var decodeNEON = perCode[func(dst []float32, src stored)]{
	f32:        decodeF32,
	f16:        decodeHalves(decodeF16NEON, decodeF16),
	bf16:       decodeHalves(decodeBF16NEON, decodeBF16),
	signed8:    decodeGroups(decodeInt8NEON),
	unsigned8:  decodeGroups(decodeInt8AsymNEON),
	unsigned4:  decodeGroups(decodeInt4NEON),
	wide4:      decodeGroups(decodeInt4NEON),
	channels4:  decodeInt4Channel,
	float4:     decodeGroups(decodeE2M1NEON),
	scaled4:    decodeNV,
	float8e4m3: decodeOctets(decodeFP8E4M3NEON),
	float8e5m2: decodeOctets(decodeFP8E5M2NEON),
}.table()

// convertNEON sets decode, encode of halves, finite and scale to assembly.
func (k *kernels) convertNEON() {
	k.decode, k.finite, k.scale = decodeNEON, finiteNEON, scaleBy
	k.encode[backend.F16], k.encode[backend.BF16] = encodeHalves(encodeF16NEON), encodeHalves(encodeBF16NEON)
}

// encodeHalves leaves what does not fill vectors to Go.
func encodeHalves(kernel func(dst *byte, src *float32, n int)) func(dst stored, src []float32, saturate bool) bool {
	return func(dst stored, src []float32, saturate bool) bool {
		dst.data = dst.data[:2*len(src)]
		n := len(src) &^ 7
		if n > 0 {
			kernel(&dst.data[0], &src[0], n)
			dst.data = dst.data[2*n:]
		}
		return n == len(src) || portable.encode[dst.dt](dst, src[n:], saturate)
	}
}

func finiteNEON(x []float32) bool {
	n := len(x) &^ 15
	return (n == 0 || largestNEON(&x[0], n) < 0x7f800000) && finite(x[n:])
}

func scaleBy(x []float32, by float32) {
	n := len(x) &^ 15
	if n > 0 {
		scaleNEON(&x[0], n, by)
	}
	scale(x[n:], by)
}

// decodeHalves leaves what does not fill vectors to rest.
func decodeHalves(kernel func(dst *float32, src *byte, n int), rest func(dst []float32, src stored)) func(dst []float32, src stored) {
	return func(dst []float32, src stored) {
		n := len(src.data) / 2
		dst = dst[:n]
		if n &^= 7; n > 0 {
			kernel(&dst[0], &src.data[0], n)
			dst, src.data = dst[n:], src.data[2*n:]
		}
		rest(dst, src)
	}
}

// decodeGroups is for types whose rows have scales of their own.
func decodeGroups(kernel func(dst *float32, codes *byte, words *uint32, rows int, dim int, group int, ahead *byte)) func(dst []float32, src stored) {
	return func(dst []float32, src stored) {
		if !src.inVectors() {
			decodeRows(dst, src)
			return
		}
		rows := src.n
		_, _ = dst[rows*src.dim-1], src.scales[rows*src.dt.ScaleWords(src.dim)-1]
		kernel(&dst[0], &src.data[0], &src.scales[0], rows, src.dim, src.group(), src.next())
	}
}

// decodeOctets is for floats of 8 bits.
func decodeOctets(kernel func(dst *float32, codes *byte, scale float32, n int, ahead *byte)) func(dst []float32, src stored) {
	return func(dst []float32, src stored) {
		dst = dst[:len(src.data)]
		if n := len(dst) &^ 15; n > 0 {
			kernel(&dst[0], &src.data[0], math.Float32frombits(src.scales[0]), n, src.next())
			dst, src.data = dst[n:], src.data[n:]
		}
		decodeFP8(dst, src)
	}
}

func decodeInt4Channel(dst []float32, src stored) {
	if !src.inVectors() {
		decodeChannels(dst, src)
		return
	}
	rows := src.n
	_, _ = dst[rows*src.dim-1], src.scales[src.dim-1]
	decodeInt4ChannelNEON(&dst[0], &src.data[0], &src.scales[0], rows, src.dim, src.next())
}
