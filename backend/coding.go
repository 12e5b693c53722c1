package backend

// Coding is how a type stores elements: what codecs, kernels, tests and tools know of a storage
// format, they know from here.
type Coding struct {
	Name   string // as ParseDType reads it
	Bits   int    // of an element
	Code   Code   // what those bits say
	Scope  Scope  // which elements share a scale
	Group  int    // ByGroup: consecutive elements of a row that do; 0: all of it
	Scale  Scale  // what a word of the scales says
	Act    bool   // queries, new keys and values, and outputs may have this type
	Values DType  // what values are stored as beside such keys, unless a caller says otherwise
}

// Code is what the bits of an element say.
type Code uint8

const (
	NoCode   Code = iota
	Binary        // IEEE 754 binary32 or binary16
	Brain         // the upper half of a binary32
	Integer       // an integer that is no code: a slot, a length, a rotation
	Signed        // an integer of two's complement, without the lowest: symmetric around 0
	Unsigned      // an integer from 0 on
	E4M3          // OCP 8-bit float of 4 bits of exponent, no infinity
	E5M2          // OCP 8-bit float of 5 bits of exponent
	E2M1          // OCP 4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and those with a sign
)

func (c Code) String() string {
	return [...]string{"none", "binary", "brain", "integer", "signed", "unsigned", "e4m3", "e5m2", "e2m1"}[min(c, E2M1)]
}

// Float reports whether codes are small floats.
func (c Code) Float() bool { return c == E4M3 || c == E5M2 || c == E2M1 }

// Scope is which elements of a plane [blocks, heads, block, dim] share a scale.
type Scope uint8

const (
	Unscaled  Scope = iota // none: it is no quantized type
	ByGroup                // Group consecutive elements of a row; the last group of a row may be shorter
	ByChannel              // an element of all rows of a block and head, which are stored at once
	ByHead                 // all elements of a head; the caller sets the scale
)

func (s Scope) String() string {
	return [...]string{"none", "group", "channel", "head"}[min(s, ByHead)]
}

// Scale is what a word of 32 bits of the scales beside a plane says.
type Scale uint8

const (
	NoScale Scale = iota
	// Factor is a float32: element = factor * code.
	Factor
	// StepZero is a bfloat16 s in the low half, and in the high half a signed zero point z in 1/256
	// of the code's range: element = s * (code + z * 2^(bits−8)), which a float32 holds exactly.
	StepZero
	// Exponents are four bytes, the first group's lowest: element = 2^(byte−127) * code, and 255
	// makes NaN of a group (E8M0 of the OCP Microscaling Formats, v1.0). Bytes behind a row's
	// last group are 0.
	Exponents
)

func (s Scale) String() string {
	return [...]string{"none", "factor", "step-zero", "exponents"}[min(s, Exponents)]
}

// perWord is how many groups have their scale in one word.
func (s Scale) perWord() int {
	if s == Exponents {
		return 4
	}
	return 1
}

// dtype is the type of a buffer of scales.
func (s Scale) dtype() DType {
	if s == Factor {
		return F32
	}
	return U32
}

// codings is all there is to say about every type. The order says nothing.
var codings = [DTypes]Coding{
	Invalid: {Name: "invalid"},
	F32:     {Name: "f32", Bits: 32, Code: Binary, Act: true, Values: F32},
	F16:     {Name: "f16", Bits: 16, Code: Binary, Act: true, Values: F16},
	BF16:    {Name: "bf16", Bits: 16, Code: Brain, Act: true, Values: BF16},

	Int8:        {Name: "int8", Bits: 8, Code: Signed, Scope: ByGroup, Scale: Factor, Values: Int8},
	Int8Asym:    {Name: "int8asym", Bits: 8, Code: Unsigned, Scope: ByGroup, Scale: StepZero, Values: Int8Asym},
	FP8E4M3:     {Name: "fp8e4m3", Bits: 8, Code: E4M3, Scope: ByHead, Scale: Factor, Values: FP8E4M3},
	FP8E5M2:     {Name: "fp8e5m2", Bits: 8, Code: E5M2, Scope: ByHead, Scale: Factor, Values: FP8E5M2},
	Int4:        {Name: "int4", Bits: 4, Code: Unsigned, Scope: ByGroup, Group: 32, Scale: StepZero, Values: Int4},
	Int4G64:     {Name: "int4g64", Bits: 4, Code: Unsigned, Scope: ByGroup, Group: 64, Scale: StepZero, Values: Int4G64},
	Int4Channel: {Name: "int4channel", Bits: 4, Code: Unsigned, Scope: ByChannel, Scale: StepZero, Values: Int4},

	U32: {Name: "u32", Bits: 32, Code: Integer},
	I32: {Name: "i32", Bits: 32, Code: Integer},
	I64: {Name: "i64", Bits: 64, Code: Integer},

	MXFP4: {Name: "mxfp4", Bits: 4, Code: E2M1, Scope: ByGroup, Group: 32, Scale: Exponents, Values: MXFP4},
}

// Coding describes the type; the zero Coding for one that is none.
func (d DType) Coding() Coding { return *d.coding() }

// coding is Coding, for reading.
func (d DType) coding() *Coding {
	if d >= DTypes {
		d = Invalid
	}
	return &codings[d]
}

// Storages yields every type that keys can be stored in, those that are computed with first.
// A type is one for values, too, where its Coding.Values is itself.
func Storages(yield func(DType) bool) {
	for _, act := range [...]bool{true, false} {
		for d := range DTypes {
			if c := &codings[d]; c.Values != Invalid && c.Act == act && !yield(d) {
				return
			}
		}
	}
}
