package quant

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// AffineOf is the format of rows of an asymmetric type. For types with words for channels only Bits
// is meaningful.
func AffineOf(dt backend.DType) (Affine, bool) {
	c := dt.Coding()
	return Affine{Bits: c.Bits, Group: c.Group}, c.Scale == backend.StepZero
}

// EncodeRow stores the row x as a type whose rows have scales of their own (see backend.Coding):
// codes, and ScaleWords words of scales. It is false when a value is not finite; with saturate it
// replaces such values in x first (see Saturate). The factor that a head may have is 1; EncodeNV
// takes another.
func EncodeRow(dt backend.DType, codes []byte, scales []uint32, x []float32, saturate bool) bool {
	switch c := codingOfRows(dt); c.Code {
	case backend.Signed:
		scale, ok := EncodeInt8(codes, x, saturate)
		scales[0] = math.Float32bits(scale)
		return ok
	case backend.E2M1:
		if dt.HeadFactors() {
			return EncodeNV(codes, scales, x, c.Group, 1, saturate)
		}
		return EncodeMX(codes, scales, x, c.Group, saturate)
	}
	return affineRows(dt).Encode(codes, scales, x, saturate)
}

// DecodeRow computes the values of a row that EncodeRow stored.
func DecodeRow(dt backend.DType, dst []float32, codes []byte, scales []uint32) {
	switch c := codingOfRows(dt); c.Code {
	case backend.Signed:
		DecodeInt8(dst, codes, math.Float32frombits(scales[0]))
	case backend.E2M1:
		if dt.HeadFactors() {
			DecodeNV(dst, codes, scales, c.Group, 1)
		} else {
			DecodeMX(dst, codes, scales, c.Group)
		}
	default:
		affineRows(dt).Decode(dst, codes, scales)
	}
}

// BoundRow is the largest difference between value i of a row of finite values and its stored
// value.
func BoundRow(dt backend.DType, x []float32, i int) float64 {
	c, group := codingOfRows(dt), x
	if c.Group > 0 {
		first := i / c.Group * c.Group
		group = x[first:min(first+c.Group, len(x))]
	}
	switch c.Code {
	case backend.Signed:
		return BoundInt8(group)
	case backend.E2M1:
		if dt.HeadFactors() {
			return BoundNV(x[i], StepNV(FactorNV(largestOf(group), 1), 1))
		}
		return BoundMX(x[i], ExponentMX(largestOf(group)))
	}
	return affineRows(dt).Bound(group)
}

// codingOfRows is the coding of a type whose rows have scales of their own.
func codingOfRows(dt backend.DType) backend.Coding {
	c := dt.Coding()
	if c.Scope != backend.ByGroup {
		panic(fmt.Sprintf("quant: rows of %s have no scales of their own", dt))
	}
	return c
}

func affineRows(dt backend.DType) Affine {
	a, _ := AffineOf(dt)
	return a
}

// EncodeChannels stores the rows of a block, [n, dim] back to back, with a word for each channel,
// as 4-bit codes [n, dim/2]. dim is len(words), an even number. It is false when a value is not
// finite; with saturate it replaces such values first, where a channel is the group (see Saturate).
func EncodeChannels(codes []byte, words []uint32, rows []float32, saturate bool) bool {
	dim := len(words)
	var held [256]float32 // enough for the usual blocks
	column := held[:0]
	for d := range dim {
		column = column[:0]
		for at := d; at < len(rows); at += dim {
			column = append(column, rows[at])
		}
		lo, hi, ok := finiteSpan(column, saturate)
		if !ok {
			return false
		}
		w := WordOf(lo, hi, 4)
		words[d] = uint32(w)
		s, zero, shift := w.Step(), w.Zero(4), d%2*4
		for i, v := range column {
			at := &codes[(i*dim+d)/2]
			*at = *at&^(15<<shift) | codeOf(v, s, zero, 15)<<shift
		}
	}
	return true
}

// DecodeChannels computes the values of one row of a block that EncodeChannels stored.
func DecodeChannels(dst []float32, codes []byte, words []uint32) {
	words = words[:len(dst)]
	for d, bits := range words {
		w := Word(bits)
		dst[d] = w.Step() * (float32(codes[d/2]>>(d%2*4)&15) + w.Zero(4))
	}
}
