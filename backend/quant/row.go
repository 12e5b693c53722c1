package quant

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// AffineOf is how a device stores rows of an asymmetric type. For Int4Channel it is the
// codes' width alone: its words belong to channels.
func AffineOf(dt backend.DType) (Affine, bool) {
	switch dt {
	case backend.Int8Asym:
		return Affine{Bits: 8}, true
	case backend.Int4:
		return Affine{Bits: 4, Group: 32}, true
	case backend.Int4G64:
		return Affine{Bits: 4, Group: 64}, true
	case backend.Int4Channel:
		return Affine{Bits: 4}, true
	}
	return Affine{}, false
}

// EncodeRow stores one row x as a type whose rows have scales of their own (see
// backend.DType.Groups): codes, and the bits of Groups(len(x)) scales. It is false
// where a value is not finite; with saturate it changes such values in x.
func EncodeRow(dt backend.DType, codes []byte, scales []uint32, x []float32, saturate bool) bool {
	if dt == backend.Int8 {
		scale, ok := EncodeInt8(codes, x, saturate)
		scales[0] = math.Float32bits(scale)
		return ok
	}
	return rowOf(dt).Encode(codes, scales, x, saturate)
}

// DecodeRow is the values of one row of such a type.
func DecodeRow(dt backend.DType, dst []float32, codes []byte, scales []uint32) {
	if dt == backend.Int8 {
		DecodeInt8(dst, codes, math.Float32frombits(scales[0]))
		return
	}
	rowOf(dt).Decode(dst, codes, scales)
}

// BoundRow is the largest distance between a value of a row of finite ones and what it is
// stored as, for value i of the row.
func BoundRow(dt backend.DType, x []float32, i int) float64 {
	if dt == backend.Int8 {
		return BoundInt8(x)
	}
	a := rowOf(dt)
	if a.Group == 0 {
		return a.Bound(x)
	}
	first := i / a.Group * a.Group
	return a.Bound(x[first:min(first+a.Group, len(x))])
}

func rowOf(dt backend.DType) Affine {
	a, ok := AffineOf(dt)
	if !ok || dt == backend.Int4Channel {
		panic(fmt.Sprintf("quant: rows of %s have no scales of their own", dt))
	}
	return a
}

// EncodeChannels stores the rows of a block, [n, dim] back to back, as Int4Channel: codes
// [n, dim/2] and a word for each channel. dim is len(words), and even. Not finite values:
// as in EncodeRow, where the group is a channel.
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

// DecodeChannels is the values of one row of a block of Int4Channel, with the words
// of the block's channels.
func DecodeChannels(dst []float32, codes []byte, words []uint32) {
	words = words[:len(dst)]
	for d, bits := range words {
		w := Word(bits)
		dst[d] = w.Step() * (float32(codes[d/2]>>(d%2*4)&15) + w.Zero(4))
	}
}
