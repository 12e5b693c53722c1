package quant

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/ferrumkv/ferrumkv/backend"
)

// FuzzRow stores any bits as rows of every type: those of finite values are read as finite values within
// their bounds, and others are refused, unless they are to be saturated.
func FuzzRow(f *testing.F) {
	f.Add([]byte{0xff, 0xff, 0x7f, 0x7f, 0xff, 0xff, 0x7f, 0xff}) // the ends of the range
	f.Add([]byte{0xff, 0xff, 0x7f, 0x7f, 1, 0, 0, 0, 0, 0, 0, 0x80})
	f.Add([]byte{0, 0, 0x80, 0x7f, 0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0x3f})
	f.Fuzz(func(t *testing.T, data []byte) {
		x := make([]float32, len(data)/4)
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		_, _, good := span(x)
		for _, dt := range perRow {
			e, back := roomFor(t, dt, len(x)), make([]float32, len(x))
			if EncodeRow(dt, e.codes, e.scales, slices.Clone(x), false) != good {
				t.Fatalf("%s: stored is %t", dt, !good)
			}
			held := slices.Clone(x)
			if !EncodeRow(dt, e.codes, e.scales, held, true) {
				t.Fatalf("%s: refused what is saturated", dt)
			}
			DecodeRow(dt, back, e.codes, e.scales)
			for i, v := range held {
				near(t, v, back[i], BoundRow(dt, held, i), "%s: value %d", dt, i)
			}
		}
		for _, dt := range []backend.DType{backend.FP8E4M3, backend.FP8E5M2} {
			codes, back := make([]byte, len(x)), make([]float32, len(x))
			if EncodeFP8(dt, codes, x, 1, false) != good || !EncodeFP8(dt, codes, x, 1, true) {
				t.Fatalf("%s: stored is %t", dt, !good)
			}
			DecodeFP8(dt, back, codes, 1)
			if _, _, finite := span(back); !finite {
				t.Fatalf("%s: %g reads as %g", dt, x, back)
			}
		}
	})
}

// FuzzUnpack reads any bytes as codes of any width: each is in range, and packing them
// again gives the bytes, but for the bits after the last code.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{}, byte(3))
	f.Add([]byte{0xff}, byte(8))
	f.Add([]byte{0x21, 0x43, 0x65, 0x87}, byte(4))
	f.Add([]byte{0x01, 0x80, 0xff, 0x00, 0x55}, byte(3))
	f.Fuzz(func(t *testing.T, data []byte, width byte) {
		bits := 1 + int(width)%8
		codes := make([]uint8, len(data)*8/bits)
		Unpack(codes, data, bits)
		for i, c := range codes {
			if int(c) >= 1<<bits {
				t.Fatalf("code %d is %d, of %d bits", i, c, bits)
			}
		}
		packed := make([]byte, PackedLen(len(codes), bits))
		Pack(packed, codes, bits)
		rest := len(codes) * bits % 8
		for i, b := range packed {
			want := data[i]
			if i == len(packed)-1 && rest > 0 {
				want &= 1<<rest - 1
			}
			if b != want {
				t.Fatalf("byte %d: %#x became %#x with %d bits", i, want, b, bits)
			}
		}
	})
}

// FuzzAffineDecode reads any bytes with any words as a row: each value is one of those
// that the word gives codes, whatever a broken word is.
func FuzzAffineDecode(f *testing.F) {
	f.Add([]byte{}, byte(0), byte(0))
	f.Add([]byte{0x80, 0x3f, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, byte(2), byte(1))
	f.Add([]byte{0xc0, 0x7f, 0, 0, 0xff, 0xff, 0xff}, byte(1), byte(0)) // NaN
	f.Add([]byte{0x7f, 0x7f, 0xff, 0x7f, 0xff, 0xff, 0xff}, byte(3), byte(9))
	f.Add([]byte{0x80, 0xff, 0x01, 0x80, 9, 9, 9}, byte(0), byte(2)) // −infinity
	f.Fuzz(func(t *testing.T, data []byte, width, group byte) {
		a := Affine{Bits: []int{2, 3, 4, 8}[width%4], Group: 8 * int(group%9)}
		// As many groups as the bytes are enough for: a word, and full codes.
		per := a.Group
		if per == 0 {
			per = max(0, (len(data)-4)*8/a.Bits)
		}
		size := 4 + PackedLen(per, a.Bits)
		groups := len(data) / size
		if a.Group == 0 {
			groups = min(groups, 1)
		}
		words, codes := make([]uint32, groups), data[4*groups:]
		for i := range words {
			words[i] = binary.LittleEndian.Uint32(data[4*i:])
		}
		row := make([]float32, groups*per)
		a.Decode(row, codes, words)
		unpacked := make([]uint8, per)
		for i, word := range words {
			w := Word(word)
			Unpack(unpacked, codes[i*PackedLen(per, a.Bits):], a.Bits)
			for k, code := range unpacked {
				got, want := row[i*per+k], w.Value(code, a.Bits)
				if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
					t.Fatalf("value %d of group %d is %g, not %g", k, i, got, want)
				}
				lo, hi := w.Value(0, a.Bits), w.Value(1<<a.Bits-1, a.Bits)
				if got == got && lo == lo && hi == hi && (got < min(lo, hi) || got > max(lo, hi)) {
					t.Fatalf("value %d of group %d is %g, not between %g and %g", k, i, got, lo, hi)
				}
			}
		}
	})
}
