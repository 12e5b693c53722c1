package abi

import (
	"math/bits"

	"github.com/ferrumkv/ferrumkv/backend"
)

// StorageBit is one thing that a kernel asks about how a plane is stored. Number i of StorageBits is
// bit i of a storage word.
type StorageBit struct {
	Name string // behind FKV_, in C
	Says string
	of   func(*backend.Coding) bool
}

// StorageBits are what kernels tell storage types apart by: what differs in none of them is no bit.
var StorageBits = [...]StorageBit{
	{"NIBBLES", "codes have 4 bits, two a byte, that of the even index low; the others have 8", func(c *backend.Coding) bool { return c.Bits == 4 }},
	{"SIGNED", "codes are integers of two's complement around 0", func(c *backend.Coding) bool { return c.Code == backend.Signed }},
	{"FLOATS", "codes are small floats", func(c *backend.Coding) bool { return c.Code.Float() }},
	{"E4M3", "of those of 8 bits, that of 4 bits of exponent; the other is E5M2, and that of 4 bits E2M1", func(c *backend.Coding) bool { return c.Code == backend.E4M3 }},
	{"BY_CHANNEL", "an element of all rows of a block and head has a word", func(c *backend.Coding) bool { return c.Scope == backend.ByChannel }},
	{"BY_HEAD", "all elements of a head have a word", func(c *backend.Coding) bool { return c.Scope == backend.ByHead }},
	{"EXPONENTS", "a word is four bytes, the first group's lowest, that are the exponents of powers of two", func(c *backend.Coding) bool { return c.Scale == backend.Exponents }},
	{"FACTORS", "a word is an f32 that codes are multiplied with", func(c *backend.Coding) bool { return c.Scale == backend.Factor }},
	{"F32", "elements are f32: no codes, and no words", func(c *backend.Coding) bool { return c.Act && c.Code == backend.IEEEFloat && c.Bits == 32 }},
	{"F16", "elements are f16", func(c *backend.Coding) bool { return c.Act && c.Code == backend.IEEEFloat && c.Bits == 16 }},
	{"BF16", "elements are bf16", func(c *backend.Coding) bool { return c.Act && c.Code == backend.BrainFloat }},
	{"MINIFACTORS", "a word is four bytes, the first group's lowest, that are E4M3; the plane's words begin with an f32 for each head, and fill to four words", func(c *backend.Coding) bool { return c.Scale == backend.Minifactors }},
}

// ShareShift is where in a storage word the logarithm of the octets stands, runs of 8 elements of a
// row, that have a word of scales together. It is at the top, so that one shift takes it out.
const ShareShift = 28

// mostDim is the largest dim of a row that kernels know. Rows whose elements all share a word do so
// in as many octets.
const mostDim = 1024

// storages is the words of all types.
var storages = func() (words [backend.NumDTypes]uint32) {
	for dt := range words {
		words[dt] = describe(backend.DType(dt))
	}
	return words
}()

// Storage is how a kernel is told how a plane is stored that it looks up when it runs: the type's
// backend.Coding as a word. It is 0 for types of which no plane is.
func Storage(dt backend.DType) uint32 { return storages[dt] }

func describe(dt backend.DType) uint32 {
	c, word := dt.Coding(), uint32(0)
	if c.Values == backend.Invalid {
		return 0
	}
	for i, bit := range StorageBits {
		if bit.of(&c) {
			word |= 1 << i
		}
	}
	octets := mostDim / 8 / max(dt.ScaleWords(mostDim), 1)
	return word | uint32(bits.TrailingZeros(uint(octets)))<<ShareShift
}
