// Package ggml is the types of tensors in GGUF files: what they are called, how many bytes a block of elements takes, and what numbers its
// bytes are, as ggml (github.com/ggml-org/ggml) defines them. A decoder is the definition of its type, and what faster products are compared with.
package ggml

import (
	"encoding/binary"
)

// Type is a type of tensors.
type Type struct {
	Name  string
	Block int // elements that are stored together
	Bytes int // that they take
	// Decode sets dst, [Block], to the numbers of a block; where that is one number, of as many as dst has elements. nil: the type is
	// known by name alone.
	Decode func(dst []float32, src []byte)
}

// Types is those of GGUF by their numbers. Blocks of 32 elements have a scale of their own, those of 256 have small ones
// for 16 or 32 elements each and a scale of these (k-quants).
var Types = map[uint32]Type{
	0:  {"F32", 1, 4, f32s},
	1:  {"F16", 1, 2, f16s},
	2:  {"Q4_0", 32, 18, q4_0},
	3:  {"Q4_1", 32, 20, q4_1},
	4:  {Name: "Q4_2"},
	5:  {Name: "Q4_3"},
	6:  {"Q5_0", 32, 22, q5_0},
	7:  {"Q5_1", 32, 24, q5_1},
	8:  {"Q8_0", 32, 34, q8_0},
	9:  {Name: "Q8_1"},
	10: {"Q2_K", 256, 84, q2K},
	11: {"Q3_K", 256, 110, q3K},
	12: {"Q4_K", 256, 144, q4K},
	13: {"Q5_K", 256, 176, q5K},
	14: {"Q6_K", 256, 210, q6K},
	15: {Name: "Q8_K"},
	16: {Name: "IQ2_XXS"},
	17: {Name: "IQ2_XS"},
	18: {Name: "IQ3_XXS"},
	19: {Name: "IQ1_S"},
	20: {"IQ4_NL", 32, 18, iq4NL},
	21: {Name: "IQ3_S"},
	22: {Name: "IQ2_S"},
	23: {"IQ4_XS", 256, 136, iq4XS},
	24: {Name: "I8"},
	25: {Name: "I16"},
	26: {Name: "I32"},
	27: {Name: "I64"},
	28: {Name: "F64"},
	29: {Name: "IQ1_M"},
	30: {"BF16", 1, 2, bf16s},
	31: {Name: "Q4_0_4_4"},
	32: {Name: "Q4_0_4_8"},
	33: {Name: "Q4_0_8_8"},
	34: {Name: "TQ1_0"},
	35: {Name: "TQ2_0"},
	36: {Name: "IQ4_NL_4_4"},
	37: {Name: "IQ4_NL_4_8"},
	38: {Name: "IQ4_NL_8_8"},
	39: {"MXFP4", 32, 17, mxfp4},
	40: {Name: "NVFP4"},
}

// Scales is where a block has numbers in binary16, for the types of which these alone can make an element infinite or not a number.
var Scales = map[string][]int{"Q4_0": {0}, "Q4_1": {0, 2}, "Q5_0": {0}, "Q5_1": {0, 2}, "Q8_0": {0}, "Q2_K": {80, 82}, "Q3_K": {108},
	"Q4_K": {0, 2}, "Q5_K": {0, 2}, "Q6_K": {208}, "IQ4_NL": {0}, "IQ4_XS": {0}}

var le = binary.LittleEndian
