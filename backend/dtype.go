package backend

import "math"

// DType is the storage type of a buffer's elements.
type DType uint8

// F32, F16 and BF16 are computed with and stored. The quantized types are
// storage of K and V only. The integer types hold slots, tables and lengths.
const (
	Invalid DType = iota
	F32
	F16  // IEEE 754 binary16
	BF16 // upper half of a binary32
	Int8
	FP8E4M3 // OCP 8-bit float, 4 exponent bits, no infinity
	FP8E5M2 // OCP 8-bit float, 5 exponent bits
	Int4    // two a byte, the element of even index in the low half
	U32     // block tables, lengths, positions
	I32     // rotations
	I64     // slots
)

var dtypes = [...]struct {
	name string
	bits int
}{
	Invalid: {"invalid", 0},
	F32:     {"f32", 32}, F16: {"f16", 16}, BF16: {"bf16", 16},
	Int8: {"int8", 8}, FP8E4M3: {"fp8e4m3", 8}, FP8E5M2: {"fp8e5m2", 8}, Int4: {"int4", 4},
	U32: {"u32", 32}, I32: {"i32", 32}, I64: {"i64", 64},
}

// String is the name that ParseDType accepts: f32, f16, bf16, int8, fp8e4m3, fp8e5m2, int4, …
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
func (d DType) Quantized() bool { return d >= Int8 && d <= Int4 }
