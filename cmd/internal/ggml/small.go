package ggml

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend/quant"
)

func f32(src []byte) float32 { return math.Float32frombits(le.Uint32(src)) }
func f16(src []byte) float32 { return quant.FromF16(le.Uint16(src)) }

// f32s, f16s and bf16s are numbers.
func f32s(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = f32(src[4*i:])
	}
}

func f16s(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = f16(src[2*i:])
	}
}

func bf16s(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = quant.FromBF16(le.Uint16(src[2*i:]))
	}
}

// A product that something is added to is made a float32 first: else processors with such an instruction round both at once.
//
// Of a block of 32 elements of 4 bits the low halves of 16 bytes are the first ones, the high halves the others.

// q4_0 is a scale, and codes less 8.
func q4_0(dst []float32, src []byte) {
	d := f16(src)
	for i, c := range src[2:18] {
		dst[i], dst[i+16] = d*float32(int(c&15)-8), d*float32(int(c>>4)-8)
	}
}

// q4_1 is a scale, the lowest value, and codes.
func q4_1(dst []float32, src []byte) {
	d, m := f16(src), f16(src[2:])
	for i, c := range src[4:20] {
		dst[i], dst[i+16] = float32(d*float32(c&15))+m, float32(d*float32(c>>4))+m
	}
}

// q5_0 is a scale, a fifth bit for each element, and codes less 16.
func q5_0(dst []float32, src []byte) {
	d, high := f16(src), le.Uint32(src[2:])
	for i, c := range src[6:22] {
		dst[i], dst[i+16] = d*float32(int(c&15|fifth(high, i))-16), d*float32(int(c>>4|fifth(high, i+16))-16)
	}
}

// q5_1 is a scale, the lowest value, a fifth bit for each element, and codes.
func q5_1(dst []float32, src []byte) {
	d, m, high := f16(src), f16(src[2:]), le.Uint32(src[4:])
	for i, c := range src[8:24] {
		dst[i], dst[i+16] = float32(d*float32(c&15|fifth(high, i)))+m, float32(d*float32(c>>4|fifth(high, i+16)))+m
	}
}

// fifth is the highest of five bits of element i.
func fifth(bits uint32, i int) byte { return byte(bits>>i&1) << 4 }

// q8_0 is a scale, and codes with signs.
func q8_0(dst []float32, src []byte) {
	d := f16(src)
	for i, c := range src[2:34] {
		dst[i] = d * float32(int8(c))
	}
}

// nonlinear is the values of codes of 4 bits that are denser around zero.
var nonlinear = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// iq4NL is a scale, and codes of nonlinear.
func iq4NL(dst []float32, src []byte) {
	d := f16(src)
	for i, c := range src[2:18] {
		dst[i], dst[i+16] = d*nonlinear[c&15], d*nonlinear[c>>4]
	}
}

// floats4 is E2M1, the numbers of 4 bits of the OCP microscaling formats.
var floats4 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}

// mxfp4 is an exponent, and numbers of 4 bits. Exponents 0 and 255 are those of ggml: 2^-127, and 2^128 where the format has no number.
func mxfp4(dst []float32, src []byte) {
	d := math.Ldexp(1, int(src[0])-127)
	for i, c := range src[1:17] {
		dst[i], dst[i+16] = float32(d*float64(floats4[c&15])), float32(d*float64(floats4[c>>4]))
	}
}
