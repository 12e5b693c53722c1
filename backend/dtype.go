package backend

import (
	"math"
	"strconv"
)

// DType is the storage type of a buffer's elements.
type DType uint8

// F32, F16 and BF16 are activation types and storage types. The quantized types are storage of keys
// and values only; each fixes which elements share a scale (see Coding), so the type alone says how
// a plane is stored. The integer types hold slots, tables and lengths.
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
	Int4Channel // Int4 with a scale for each channel of a block, for keys only (KIVI, arXiv:2402.02750)
	U32         // block tables, lengths, positions
	I32         // rotations
	I64         // slots
	MXFP4       // 4-bit floats in groups of 32 along the head dim that share a power of two; two a byte, the even index low
	NVFP4       // 4-bit floats in groups of 16 that share an E4M3, times a scale for each head; two a byte, the even index low
	NumDTypes   // the number of types; not a type
)

// String is the name that ParseDType accepts: f32, f16, bf16, int8, int8asym, fp8e4m3, fp8e5m2, int4, …
func (d DType) String() string { return d.coding().Name }

// ParseDType is the inverse of String.
func ParseDType(name string) (DType, bool) {
	for d := range NumDTypes {
		if codings[d].Name == name && d != Invalid {
			return d, true
		}
	}
	return Invalid, false
}

// MarshalText is String, of a valid type: JSON has types by their names.
func (d DType) MarshalText() ([]byte, error) {
	if d == Invalid || d >= NumDTypes {
		return nil, ErrConfig{Package: "backend", Name: "DType", Value: strconv.Itoa(int(d)), Why: "is not a type"}
	}
	return []byte(d.String()), nil
}

// UnmarshalText is ParseDType.
func (d *DType) UnmarshalText(text []byte) error {
	v, ok := ParseDType(string(text))
	if !ok {
		return ErrConfig{Package: "backend", Name: "DType", Value: string(text), Why: "accepts f32, f16, bf16 and the names of the other types"}
	}
	*d = v
	return nil
}

// Bits is the storage of one element; 0 for an invalid type.
func (d DType) Bits() int { return d.coding().Bits }

// Size is the bytes of n elements, rounded up to a whole byte for packed types. It is false for an
// invalid type, a negative n, and sizes that overflow.
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

// Float reports whether the type is an activation type: F32, F16 or BF16.
func (d DType) Float() bool { return d.coding().Act }

// Quantized reports whether the type stores quantized keys and values.
func (d DType) Quantized() bool { return d.coding().Scope != Unscaled }

// GroupOf is how many consecutive elements of a row [dim] share a scale: dim when all do, 1 when
// each channel of a block has its own scale, 0 for types without scales.
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

// ScaleWords is the number of scale words that belong to one row [dim]: 0 when scales belong to a
// head or a block, and for types without scales.
func (d DType) ScaleWords(dim int) int {
	c := d.coding()
	if c.Scope != ByGroup {
		return 0
	}
	if c.Group == 0 {
		return 1
	}
	share := c.Group * c.Scale.PerWord()
	return dim/share + (dim%share+share-1)/share
}

// Scales is the type and the number of the scale words of a plane [blocks, heads, block, dim]:
//
//   - ByGroup: [blocks, heads, block, ScaleWords(dim)],
//   - ByChannel: [blocks, heads, dim], for all tokens of a block,
//   - ByHead: [heads], which the caller sets.
//
// Before them are HeadWords of heads, which are among those of ByHead. The type is F32 when words
// are factors (see Scale), else U32. It is Invalid, and the number 0, for types without scales.
// False when the number overflows.
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
	if c.Scope == ByGroup && d.HeadFactors() {
		ok = ok && n <= math.MaxInt-d.HeadWords(heads)
		n += d.HeadWords(heads)
	}
	return c.Scale.dtype(), n, ok
}

// HeadFactors reports whether the caller sets a float32 for each head of a plane of this type.
func (d DType) HeadFactors() bool {
	c := d.coding()
	return c.Scope == ByHead || c.Scale == Minifactors
}

// HeadWords is the number of words that a plane's scales begin with and that the caller sets: a
// float32 for each head, and 0 up to a multiple of four words where those of rows come after them.
func (d DType) HeadWords(heads int) int {
	switch {
	case !d.HeadFactors():
		return 0
	case d.coding().Scope == ByHead:
		return heads
	}
	return (heads + 3) &^ 3
}
