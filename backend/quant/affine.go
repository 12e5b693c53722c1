package quant

import "math"

// Word is the scale and the zero point of a group of codes. Its low half is a bfloat16 s. Its high
// half is a signed integer z that counts 1/256 of a code's range, so that groups far from zero are
// stored precisely: a code of b bits stands for s*(code + z*2^(b-8)). The product of 8 and 16 bits
// is exact in a float32.
type Word uint32

// NaN is the word of a group whose values are all NaN.
const NaN Word = 0x7fc0

const (
	most     = 1<<15 - 1  // largest zero point
	infinity = 0x7f800000 // its bits
)

// farthest is the largest magnitude that scales cover. A scale is rounded, by up to 1/16 (E4M3), and so
// the largest code of a larger magnitude may be worth an infinity.
const farthest = 0x1.ep127

// WordOf is the word with which codes of the given bits cover values from lo to hi, both finite, as far
// as 0x1.ep127 either way.
func WordOf(lo, hi float32, bits int) Word {
	lo, hi = min(max(lo, -farthest), farthest), min(max(hi, -farthest), farthest)
	top := float32(int(1)<<bits - 1)
	s := (float32(0.5*hi) - float32(0.5*lo)) / (0.5 * top) // hi - lo may overflow
	reach := float32(math.Ldexp(1, 8-bits) / most)         // so that lo is within reach of z
	s = max(s, float32(abs(lo)*reach))
	high := (math.Float32bits(s) + 0xffff) >> 16 // rounded up: the codes must cover hi
	if high == 0 {
		return 0
	}
	s = FromBF16(uint16(high))
	z := math.RoundToEven(float64(float32(lo/s) * float32(int(1)<<(8-bits))))
	return Word(uint16(int16(min(max(z, -most), most))))<<16 | Word(high)
}

// Step is the distance between the values of two neighbouring codes.
func (w Word) Step() float32 { return FromBF16(uint16(w)) }

// Zero is the zero point for codes of the given bits, in steps.
func (w Word) Zero(bits int) float32 {
	return float32(int16(w>>16)) * (1 / float32(int(1)<<(8-bits)))
}

// Value is the value of a code of the given bits.
func (w Word) Value(code uint8, bits int) float32 { return w.Step() * (float32(code) + w.Zero(bits)) }

// Affine is the format of rows of codes of Bits bits, 2, 3, 4 or 8, in groups of Group values that
// share a Word. Group is a multiple of 8; 0 is the whole row. The last group of a row may be
// shorter.
type Affine struct{ Bits, Group int }

// Words is the number of groups of a row of dim values.
func (a Affine) Words(dim int) int {
	if a.Group == 0 {
		return 1
	}
	return (dim + a.Group - 1) / a.Group
}

// Bytes is the size of a row's codes in bytes.
func (a Affine) Bytes(dim int) int { return PackedLen(dim, a.Bits) }

// Encode stores the row x as codes, Bytes of them, and Words words. It is false when a value is not
// finite; codes and words are then undefined. With saturate it replaces those values in x first;
// see Saturate.
func (a Affine) Encode(codes []byte, words []uint32, x []float32, saturate bool) bool {
	for i := 0; len(x) > 0; i++ {
		n := a.group(len(x))
		w, ok := a.encode(codes, x[:n], saturate)
		if !ok {
			return false
		}
		words[i] = uint32(w)
		x, codes = x[n:], codes[PackedLen(n, a.Bits):]
	}
	return true
}

// group is the values of the group that begins a rest of a row.
func (a Affine) group(rest int) int {
	if a.Group == 0 {
		return rest
	}
	return min(a.Group, rest)
}

func (a Affine) encode(codes []byte, x []float32, saturate bool) (Word, bool) {
	lo, hi, ok := finiteSpan(x, saturate)
	if !ok {
		return 0, false
	}
	w := WordOf(lo, hi, a.Bits)
	s, zero, top := w.Step(), w.Zero(a.Bits), float32(int(1)<<a.Bits-1)
	if a.Bits == 8 {
		codes = codes[:len(x)]
		for i, v := range x {
			codes[i] = codeOf(v, s, zero, top)
		}
		return w, true
	}
	p := packer{to: codes, bits: a.Bits}
	for _, v := range x {
		p.put(uint32(codeOf(v, s, zero, top)))
	}
	p.flush()
	return w, true
}

// codeOf is the code, 0 to top, of a value where codes are s apart.
func codeOf(v, s, zero, top float32) uint8 {
	if s == 0 {
		return 0
	}
	return uint8(integer(min(max(float32(v/s)-zero, 0), top)))
}

// integer is x, of a magnitude below 2^22, rounded to the nearest integer, ties to even: the
// sum has no bits for a fraction, and ends with the integer.
func integer(x float32) int32 {
	const base = 0x1.8p23
	return int32(math.Float32bits(x+base)) - 0x4b400000 // the bits of base
}

// Decode computes the values of a row.
func (a Affine) Decode(dst []float32, codes []byte, words []uint32) {
	for i := 0; len(dst) > 0; i++ {
		n := a.group(len(dst))
		w := Word(words[i])
		a.decode(dst[:n], codes, w)
		dst, codes = dst[n:], codes[PackedLen(n, a.Bits):]
	}
}

func (a Affine) decode(dst []float32, codes []byte, w Word) {
	s, zero := w.Step(), w.Zero(a.Bits)
	switch a.Bits {
	case 8:
		codes = codes[:len(dst)]
		for i, c := range codes {
			dst[i] = s * (float32(c) + zero)
		}
	case 4:
		for i, c := range codes[:len(dst)/2] {
			dst[2*i], dst[2*i+1] = s*(float32(c&15)+zero), s*(float32(c>>4)+zero)
		}
		if n := len(dst); n%2 == 1 {
			dst[n-1] = s * (float32(codes[n/2]&15) + zero)
		}
	default:
		p := unpacker{from: codes, bits: a.Bits}
		for i := range dst {
			dst[i] = s * (float32(p.next()) + zero)
		}
	}
}

// Bound is the largest difference between a value of a group and its stored value: half a step, and
// what a magnitude has beyond 0x1.ep127. A step is at most 1/128 above the group's range over its codes,
// or 2^(8-Bits)/32767 of its lowest value when that is more.
func (a Affine) Bound(group []float32) float64 {
	lo, hi, _ := span(group)
	return halfStep(WordOf(lo, hi, a.Bits).Step()) + beyond(max(abs(lo), abs(hi)))
}

// beyond is what is cut off a magnitude that scales do not cover.
func beyond(largest float32) float64 { return max(float64(largest)-farthest, 0) }

// halfStep is half a step and what rounding adds to it: of x/s a small part of the
// step, and of a step that is subnormal, maybe to 0, no more than the smallest one.
func halfStep(step float32) float64 { return float64(step)*(0.5+1.0/256) + 0x1p-133 }

// span is the lowest and the highest value, if all are finite.
func span(x []float32) (lo, hi float32, finite bool) {
	if len(x) == 0 {
		return 0, 0, true
	}
	lo, hi = x[0], x[0]
	var largest uint32 // magnitude, as bits: an infinity is larger than any number, NaN than that
	for _, v := range x {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
		largest = max(largest, math.Float32bits(v)&^(1<<31))
	}
	return lo, hi, largest < infinity
}

// finiteSpan is the span of a group of finite values, or of what Saturate makes of
// others. It is false where it may not.
func finiteSpan(x []float32, saturate bool) (lo, hi float32, ok bool) {
	lo, hi, ok = span(x)
	if !ok && saturate {
		Saturate(x)
		return span(x)
	}
	return lo, hi, ok
}

// Saturate makes the values of a group finite: an infinity becomes the largest finite magnitude of
// the group, with its sign, and NaN becomes 0.
func Saturate(group []float32) {
	var largest float32
	for _, v := range group {
		if a := abs(v); a <= math.MaxFloat32 {
			largest = max(largest, a)
		}
	}
	for i, v := range group {
		switch {
		case v != v:
			group[i] = 0
		case abs(v) > math.MaxFloat32:
			group[i] = float32(math.Copysign(float64(largest), float64(v)))
		}
	}
}

func abs(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }
