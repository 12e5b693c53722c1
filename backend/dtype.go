package backend

import "math"

// DType is the storage type of a buffer's elements.
type DType uint8

// F32, F16 and BF16 are computed with and stored. The quantized types are
// storage of K and V only: each fixes which elements share a scale (see Coding),
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
	MXFP4       // 4-bit floats in groups of 32 along the head dim that share a power of two; two a byte, the even index low
	DTypes      // how many types there are; none itself
)

// String is the name that ParseDType accepts: f32, f16, bf16, int8, int8asym, fp8e4m3, fp8e5m2, int4, …
func (d DType) String() string { return d.coding().Name }

// ParseDType is the inverse of String.
func ParseDType(name string) (DType, bool) {
	for d := range DTypes {
		if codings[d].Name == name && d != Invalid {
			return d, true
		}
	}
	return Invalid, false
}

// Bits is the storage of one element; 0 for an invalid type.
func (d DType) Bits() int { return d.coding().Bits }

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
func (d DType) Float() bool { return d.coding().Act }

// Quantized reports whether the type is storage of quantized keys and values.
func (d DType) Quantized() bool { return d.coding().Scope != Unscaled }

// GroupOf is how many consecutive elements of a row of dim share a scale: dim where all do, and 1
// where each channel of a block has its own. 0 for types without scales.
func (d DType) GroupOf(dim int) int {
	switch c := d.coding(); {
	case c.Scope == Unscaled:
		return 0
	case c.Scope == ByChannel:
		return 1
	case c.Group > 0:
		return c.Group
	}
	return dim
}

// ScaleWords is how many words of scales a row of dim elements has of its own: 0 where a head
// or a block shares them, and for types without scales.
func (d DType) ScaleWords(dim int) int {
	c := d.coding()
	if c.Scope != ByGroup {
		return 0
	}
	if c.Group == 0 {
		return 1
	}
	share := c.Group * c.Scale.perWord()
	return dim/share + (dim%share+share-1)/share
}

// Scales is the type and the number of the scales beside a plane [blocks, heads,
// block, dim] of a quantized type: words as Coding.Scale says,
//
//   - ByGroup: [blocks, heads, block, ScaleWords(dim)],
//   - ByChannel: [blocks, heads, dim], one for all of a block's tokens,
//   - ByHead: [heads], which the caller sets.
//
// F32 where words are factors, else U32. Invalid and 0 for other types; false where the number
// overflows.
func (d DType) Scales(blocks, heads, block, dim int) (DType, int, bool) {
	var factors [4]int
	c := d.coding()
	switch c.Scope {
	case ByGroup:
		factors = [4]int{blocks, heads, block, d.ScaleWords(dim)}
	case ByChannel:
		factors = [4]int{blocks, heads, dim, 1}
	case ByHead:
		factors = [4]int{heads, 1, 1, 1}
	default:
		return Invalid, 0, true
	}
	n, ok := Mul(factors[0], factors[1], factors[2], factors[3])
	return c.Scale.dtype(), n, ok
}
