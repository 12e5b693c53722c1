package backend

// Coding describes how a type stores elements. Codecs, kernels, tests and tools all take what they
// know about a storage format from here.
type Coding struct {
	Name   string // the name that ParseDType accepts
	Bits   int    // of an element
	Code   Code   // how those bits are read
	Scope  Scope  // which elements share a scale
	Group  int    // ByGroup: how many consecutive elements of a row; 0: the whole row
	Scale  Scale  // how a word of the scales is read
	Act    bool   // it is an activation type: of queries, new keys and values, and outputs
	Values DType  // default storage type of values beside keys of this type
}

// Code says how the bits of an element are read.
type Code uint8

const (
	NoCode     Code = iota
	IEEEFloat       // IEEE 754 binary32 or binary16
	BrainFloat      // the upper half of a binary32
	Integer         // an integer that is not quantized data: a slot, a length, a rotation
	Signed          // a signed integer without its lowest value: symmetric around 0
	Unsigned        // an unsigned integer
	E4M3            // OCP 8-bit float, 4 exponent bits, no infinity
	E5M2            // OCP 8-bit float, 5 exponent bits
	E2M1            // OCP 4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives
)

func (c Code) String() string {
	return [...]string{"none", "binary", "brain", "integer", "signed", "unsigned", "e4m3", "e5m2", "e2m1"}[min(c, E2M1)]
}

// Float reports whether codes are 8-bit or 4-bit floats.
func (c Code) Float() bool { return c == E4M3 || c == E5M2 || c == E2M1 }

// Scope says which elements of a plane [blocks, heads, block, dim] share a scale.
type Scope uint8

const (
	Unscaled  Scope = iota // there are no scales: not a quantized type
	ByGroup                // Coding.Group consecutive elements of a row; the last group may be shorter
	ByChannel              // the same channel of all tokens of a block and head, which are stored together
	ByHead                 // all elements of a head; the caller sets the scale
)

func (s Scope) String() string {
	return [...]string{"none", "group", "channel", "head"}[min(s, ByHead)]
}

// Scale says how a 32-bit word of a plane's scales is read.
type Scale uint8

const (
	NoScale Scale = iota
	// Factor is a float32: element = factor * code.
	Factor
	// StepZero is a bfloat16 s in the low half, and in the high half a signed zero point z in 1/256
	// of the code's range: element = s * (code + z * 2^(bits−8)), which a float32 holds exactly.
	StepZero
	// Exponents are four bytes, the first group's lowest: element = 2^(byte−127) * code, and 255
	// makes a group NaN (E8M0 of the OCP Microscaling Formats, v1.0). Unused bytes at the end of a
	// row are 0.
	Exponents
	// Minifactors are four bytes, the first group's lowest, that are E4M3. A plane's scales begin
	// with a float32 for each head, which the caller sets (DType.HeadWords): a group's step is that
	// times its byte, as a float32, and element = step * code. 0x7f makes a group NaN. Unused bytes
	// at the end of a row are 0.
	Minifactors
)

func (s Scale) String() string {
	return [...]string{"none", "factor", "step-zero", "exponents", "minifactors"}[min(s, Minifactors)]
}

// PerWord is how many groups have their scale in one word.
func (s Scale) PerWord() int {
	if s == Exponents || s == Minifactors {
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
var codings = [NumDTypes]Coding{
	Invalid: {Name: "invalid"},
	F32:     {Name: "f32", Bits: 32, Code: IEEEFloat, Act: true, Values: F32},
	F16:     {Name: "f16", Bits: 16, Code: IEEEFloat, Act: true, Values: F16},
	BF16:    {Name: "bf16", Bits: 16, Code: BrainFloat, Act: true, Values: BF16},

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
	NVFP4: {Name: "nvfp4", Bits: 4, Code: E2M1, Scope: ByGroup, Group: 16, Scale: Minifactors, Values: NVFP4},
}

// Coding describes the type; the zero Coding for an invalid one.
func (d DType) Coding() Coding { return *d.coding() }

// coding is Coding, for reading.
func (d DType) coding() *Coding {
	if d >= NumDTypes {
		d = Invalid
	}
	return &codings[d]
}

// StorageTypes yields every type that keys can be stored in, activation types first. Values can be
// stored in the types whose Coding.Values is the type itself.
func StorageTypes(yield func(DType) bool) {
	for _, act := range [...]bool{true, false} {
		for d := range NumDTypes {
			if c := &codings[d]; c.Values != Invalid && c.Act == act && !yield(d) {
				return
			}
		}
	}
}
