//go:build !noasm

package cpu

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// converters is the assembly of a tier that converts between storage types.
type converters struct {
	f16, bf16                  halvesAsm
	e4m3, e5m2                 fp8Asm
	int8, int8Asym, int4, e2m1 rowsAsm
	nv                         nvAsm
	int4Channel                channelsAsm
	finite                     func(x *float32, n int) bool
	scale                      func(x *float32, n int, by float32)
	finiteHalves               func(halves *byte, words int, room uint32) bool
}

// convertersOf is that of each tier.
var convertersOf = map[string]*converters{"avx512": {
	f16: halvesAsm{decodeF16AVX512, encodeF16AVX512}, bf16: halvesAsm{decodeBF16AVX512, encodeBF16AVX512},
	e4m3: fp8Asm{decodeE4M3AVX512, encodeE4M3AVX512}, e5m2: fp8Asm{decodeE5M2AVX512, encodeE5M2AVX512},
	int8: rowsAsm{decodeInt8AVX512, encodeInt8AVX512}, int8Asym: rowsAsm{decodeInt8AsymAVX512, encodeInt8AsymAVX512},
	int4: rowsAsm{decodeInt4AVX512, encodeInt4AVX512}, int4Channel: channelsAsm{decodeInt4ChannelAVX512, encodeInt4ChannelAVX512},
	e2m1: rowsAsm{decodeE2M1AVX512, encodeE2M1AVX512}, nv: nvAsm{decodeNVAVX512, encodeNVAVX512},
	finite: finiteAVX512, scale: scaleAVX512, finiteHalves: finiteHalvesAVX512,
}, "avx2": {
	f16: halvesAsm{decodeF16AVX2, encodeF16AVX2}, bf16: halvesAsm{decodeBF16AVX2, encodeBF16AVX2},
	e4m3: fp8Asm{decodeE4M3AVX2, encodeE4M3AVX2}, e5m2: fp8Asm{decodeE5M2AVX2, encodeE5M2AVX2},
	int8: rowsAsm{decodeInt8AVX2, encodeInt8AVX2}, int8Asym: rowsAsm{decodeInt8AsymAVX2, encodeInt8AsymAVX2},
	int4: rowsAsm{decodeInt4AVX2, encodeInt4AVX2}, int4Channel: channelsAsm{decodeInt4ChannelAVX2, encodeInt4ChannelAVX2},
	e2m1: rowsAsm{decodeE2M1AVX2, encodeE2M1AVX2}, nv: nvAsm{decodeNVAVX2, encodeNVAVX2},
	finite: finiteAVX2, scale: scaleAVX2, finiteHalves: finiteHalvesAVX2,
}}

// convert sets decode, encode, finite, finiteHalves and scale to those of k's tier.
func (k *kernels) convert() {
	c := convertersOf[k.name]
	for dt, by := range (perCode[interface {
		decode(dst []float32, src stored)
		encode(dst stored, src []float32, saturate bool) bool
	}]{
		f16: &c.f16, bf16: &c.bf16, float8e4m3: &c.e4m3, float8e5m2: &c.e5m2,
		signed8: &c.int8, unsigned8: &c.int8Asym, unsigned4: &c.int4, wide4: &c.int4, channels4: &c.int4Channel, float4: &c.e2m1, scaled4: &c.nv,
	}).table() {
		if by != nil {
			k.decode[dt], k.encode[dt] = by.decode, by.encode
		}
	}
	k.finite = func(x []float32) bool {
		n := len(x) &^ (unit - 1)
		return (n == 0 || c.finite(&x[0], n)) && finite(x[n:])
	}
	k.finiteHalves = func(dt backend.DType, rows []byte) bool {
		infinity := uint32(0x7c00)
		if dt == backend.BF16 {
			infinity = 0x7f80
		} else if dt != backend.F16 {
			return false
		}
		return len(rows) > 0 && len(rows)%(4*unit) == 0 && c.finiteHalves(&rows[0], len(rows)/4, (1<<15-infinity)*0x10001)
	}
	k.scale = func(x []float32, by float32) {
		n := len(x) &^ (unit - 1)
		if n > 0 {
			c.scale(&x[0], n, by)
		}
		scale(x[n:], by)
	}
}

// unit is how many elements assembly takes, or a multiple: what is left goes to Go, as do
// values that are not finite and are to be saturated.
const unit = 16

// halvesAsm converts the types of 16 bits.
type halvesAsm struct {
	load  func(dst *float32, src *uint16, ahead *byte, n int)
	store func(dst *uint16, src *float32, n int)
}

func (a *halvesAsm) decode(dst []float32, src stored) {
	halves := of[uint16](src.data)
	dst = dst[:len(halves)]
	n := len(dst) &^ (unit - 1)
	if n > 0 {
		a.load(&dst[0], &halves[0], src.next(), n)
	}
	if n < len(dst) {
		src.data = src.data[2*n:]
		decodeGo[src.dt](dst[n:], src)
	}
}

func (a *halvesAsm) encode(dst stored, src []float32, saturate bool) bool {
	halves := of[uint16](dst.data)[:len(src)]
	n := len(src) &^ (unit - 1)
	if n > 0 {
		a.store(&halves[0], &src[0], n)
	}
	dst.data = dst.data[2*n:]
	return n == len(src) || portable.encode[dst.dt](dst, src[n:], saturate)
}

// fp8Asm converts the 8-bit floats.
type fp8Asm struct {
	load func(dst *float32, codes *byte, scale float32, n int)
	fp8Store
}

func (a *fp8Asm) decode(dst []float32, src stored) {
	dst = dst[:len(src.data)]
	n := len(dst) &^ (unit - 1)
	if n > 0 {
		a.load(&dst[0], &src.data[0], math.Float32frombits(src.scales[0]), n)
	}
	src.data = src.data[n:]
	decodeFP8(dst[n:], src)
}

// rowsAsm converts the types whose rows have scales of their own.
type rowsAsm struct {
	load  func(dst *float32, codes *byte, scales *uint32, dim, group, rows int)
	store func(codes *byte, scales *uint32, src *float32, dim, group, rows int) bool
}

func (a *rowsAsm) decode(dst []float32, src stored) {
	n := src.n
	if n == 0 || src.dim%unit != 0 {
		decodeRows(dst, src)
		return
	}
	dst, scales := dst[:n*src.dim], src.scales[:n*src.dt.ScaleWords(src.dim)]
	a.load(&dst[0], &src.data[0], &scales[0], src.dim, src.group(), n)
}

func (a *rowsAsm) encode(dst stored, src []float32, saturate bool) bool {
	n := dst.n
	if n == 0 || dst.dim%unit != 0 {
		return encodeRows(dst, src, saturate)
	}
	src, scales := src[:n*dst.dim], dst.scales[:n*dst.dt.ScaleWords(dst.dim)]
	return a.store(&dst.data[0], &scales[0], &src[0], dst.dim, dst.group(), n) || saturate && encodeRows(dst, src, true)
}

// nvAsm converts the type whose rows have scales of their own that are relative to the head's.
type nvAsm struct {
	load  func(dst *float32, codes *byte, scales *uint32, dim, group, rows int, factor float32)
	store func(codes *byte, scales *uint32, src *float32, dim, group, rows int, factor float32) bool
}

func (a *nvAsm) decode(dst []float32, src stored) {
	n := src.n
	if n == 0 || src.dim%unit != 0 {
		decodeNV(dst, src)
		return
	}
	dst, scales := dst[:n*src.dim], src.scales[:n*src.dt.ScaleWords(src.dim)]
	a.load(&dst[0], &src.data[0], &scales[0], src.dim, src.group(), n, src.factor)
}

func (a *nvAsm) encode(dst stored, src []float32, saturate bool) bool {
	n := dst.n
	if n == 0 || dst.dim%unit != 0 {
		return encodeNV(dst, src, saturate)
	}
	src, scales := src[:n*dst.dim], dst.scales[:n*dst.dt.ScaleWords(dst.dim)]
	return a.store(&dst.data[0], &scales[0], &src[0], dst.dim, dst.group(), n, dst.factor) || saturate && encodeNV(dst, src, true)
}

// channelsAsm converts the type whose channels have scales.
type channelsAsm struct {
	load  func(dst *float32, codes *byte, words *uint32, dim, rows int)
	store func(codes *byte, words *uint32, src *float32, dim, rows int) bool
}

func (a *channelsAsm) decode(dst []float32, src stored) {
	n := src.n
	if n == 0 || src.dim%unit != 0 {
		decodeChannels(dst, src)
		return
	}
	dst, words := dst[:n*src.dim], src.scales[:src.dim]
	a.load(&dst[0], &src.data[0], &words[0], src.dim, n)
}

func (a *channelsAsm) encode(dst stored, src []float32, saturate bool) bool {
	n := dst.n
	if n == 0 || dst.dim%unit != 0 {
		return encodeChannels(dst, src, saturate)
	}
	src, words := src[:n*dst.dim], dst.scales[:dst.dim]
	return a.store(&dst.data[0], &words[0], &src[0], dst.dim, n) || saturate && encodeChannels(dst, src, true)
}
