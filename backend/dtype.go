package backend

import "math"

// DType is the storage type of a buffer's elements.
type DType uint8

// F32, F16 and BF16 are computed with and stored. The quantized types are
// storage of K and V only: each fixes which elements share a scale (see Scales),
// so that a type is all there is to say about how a plane is stored. The integer
// types hold slots, tables and lengths.
const (
	Invalid DType = iota
	F32
	F16         // IEEE 754 binary16
	BF16        // upper half of a binary32
	Int8        // symmetric, a scale for each token and head
	Int8Asym    // asymmetric, a scale and a zero point for each token and head
	FP8E4M3     // OCP 8-bit float, 4 exponent bits, no infinity; a scale for each head
	FP8E5M2     // OCP 8-bit float, 5 exponent bits; a scale for each head
	Int4        // asymmetric in groups of 32 along the head dim; two a byte, the even index low
	Int4G64     // Int4 in groups of 64
	Int4Channel // Int4 with a scale for each channel of a block, as KIVI stores keys (arXiv:2402.02750)
	U32         // block tables, lengths, positions
	I32         // rotations
	I64         // slots
)

var dtypes = [...]struct {
	name string
	bits int
}{
	Invalid: {"invalid", 0},
	F32:     {"f32", 32}, F16: {"f16", 16}, BF16: {"bf16", 16},
	Int8: {"int8", 8}, Int8Asym: {"int8asym", 8}, FP8E4M3: {"fp8e4m3", 8}, FP8E5M2: {"fp8e5m2", 8},
	Int4: {"int4", 4}, Int4G64: {"int4g64", 4}, Int4Channel: {"int4channel", 4},
	U32: {"u32", 32}, I32: {"i32", 32}, I64: {"i64", 64},
}

// String is the name that ParseDType accepts: f32, f16, bf16, int8, int8asym, fp8e4m3, fp8e5m2, int4, …
func (d DType) String() string {
	if int(d) < len(dtypes) {
		return dtypes[d].name
	}
	return "invalid"
}

// ParseDType is the inverse of String.
func ParseDType(name string) (DType, bool) {
	for d, t := range dtypes {
		if t.name == name && d != int(Invalid) {
			return DType(d), true
		}
	}
	return Invalid, false
}

// Bits is the storage of one element; 0 for an invalid type.
func (d DType) Bits() int {
	if int(d) < len(dtypes) {
		return dtypes[d].bits
	}
	return 0
}

// Size is the storage of n elements in bytes, packed types rounded up to a
// byte. It is false for an invalid type, a negative n, and sizes that overflow.
func (d DType) Size(n int) (int64, bool) {
	bits := d.Bits()
	if bits == 0 || n < 0 {
		return 0, false
	}
	if bits < 8 {
		per := 8 / bits
		return int64(n/per) + int64((n%per+per-1)/per), true
	}
	if int64(n) > math.MaxInt64/int64(bits/8) {
		return 0, false
	}
	return int64(n) * int64(bits/8), true
}

// Float reports whether the type is one of F32, F16, BF16: the activation types.
func (d DType) Float() bool { return d == F32 || d == F16 || d == BF16 }

// Quantized reports whether the type is storage of quantized keys and values.
func (d DType) Quantized() bool { return d >= Int8 && d <= Int4Channel }

// Groups is how many scales a row of dim elements has of its own: 0 where a head or
// a block shares them, and for types without scales. The last group of a row may be
// shorter than the others.
func (d DType) Groups(dim int) int {
	switch d {
	case Int8, Int8Asym:
		return 1
	case Int4:
		return (dim + 31) / 32
	case Int4G64:
		return (dim + 63) / 64
	}
	return 0
}

// Scales is the type and the number of the scales beside a plane [blocks, heads,
// block, dim] of a quantized type. They are
//
//   - Int8: F32 [blocks, heads, block]: element = scale * code, code from −127 to 127.
//   - Int8Asym, Int4, Int4G64: U32 [blocks, heads, block, Groups(dim)]. The low half of
//     a word is a bfloat16 s, the high half a signed zero point z in 1/256 of the code's
//     range: element = s * (code + z * 2^(bits−8)), which a float32 holds exactly.
//   - Int4Channel: such words [blocks, heads, dim], one for all of a block's tokens.
//   - FP8E4M3, FP8E5M2: F32 [heads], which the caller sets: element = scale * code.
//
// Invalid and 0 for other types; false where the number overflows.
func (d DType) Scales(blocks, heads, block, dim int) (DType, int, bool) {
	words := U32
	factors := [4]int{blocks, heads, block, d.Groups(dim)}
	switch d {
	case Int8:
		words = F32
	case Int8Asym, Int4, Int4G64:
	case Int4Channel:
		factors = [4]int{blocks, heads, dim, 1}
	case FP8E4M3, FP8E5M2:
		words, factors = F32, [4]int{heads, 1, 1, 1}
	default:
		return Invalid, 0, true
	}
	n, ok := Mul(factors[0], factors[1], factors[2], factors[3])
	return words, n, ok
}
