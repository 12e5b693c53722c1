package abi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
)

// described is what a kernel makes of a word: a coding without its names.
func described(word uint32) backend.Coding {
	has := func(name string) bool {
		for i, bit := range StorageBits {
			if bit.Name == name {
				return word>>i&1 != 0
			}
		}
		panic("no bit " + name)
	}
	pick := func(name string, yes, no uint8) uint8 {
		if has(name) {
			return yes
		}
		return no
	}
	switch {
	case has("F32"):
		return backend.Coding{Bits: 32, Code: backend.IEEEFloat, Act: true}
	case has("F16"):
		return backend.Coding{Bits: 16, Code: backend.IEEEFloat, Act: true}
	case has("BF16"):
		return backend.Coding{Bits: 16, Code: backend.BrainFloat, Act: true}
	}
	c := backend.Coding{Bits: int(pick("NIBBLES", 4, 8)), Code: backend.Unsigned, Scope: backend.ByGroup, Scale: backend.StepZero}
	switch {
	case has("SIGNED"):
		c.Code = backend.Signed
	case has("FLOATS") && has("NIBBLES"):
		c.Code = backend.E2M1
	case has("FLOATS"):
		c.Code = backend.Code(pick("E4M3", uint8(backend.E4M3), uint8(backend.E5M2)))
	}
	switch {
	case has("BY_CHANNEL"):
		c.Scope = backend.ByChannel
	case has("BY_HEAD"):
		c.Scope = backend.ByHead
	}
	if has("FACTORS") {
		c.Scale = backend.Factor
	}
	if share := 8 << (word >> ShareShift); has("EXPONENTS") {
		c.Scale, c.Group = backend.Exponents, share/4
	} else if has("MINIFACTORS") {
		c.Scale, c.Group = backend.Minifactors, share/4
	} else if share < mostDim {
		c.Group = share
	}
	return c
}

// A word says all of a type's coding that a kernel needs, and types of no plane have none.
func TestStorageIsTheCoding(t *testing.T) {
	words := map[uint32]backend.DType{}
	for dt := range backend.StorageTypes {
		word := Storage(dt)
		require.NotZero(t, word, "%s", dt)
		require.NotContains(t, words, word, "%s", dt)
		words[word] = dt
		want := dt.Coding()
		want.Name, want.Values = "", backend.Invalid
		require.Equal(t, want, described(word), "%s: %#x", dt, word)
	}
	for _, dt := range []backend.DType{backend.Invalid, backend.U32, backend.I32, backend.I64} {
		require.Zero(t, Storage(dt), "%s", dt)
	}
	require.Less(t, len(StorageBits), ShareShift)
}

// Rows of every head dim have as many words as the types say.
func TestStorageShare(t *testing.T) {
	for dt := range backend.StorageTypes {
		if dt.ScaleWords(mostDim) == 0 {
			continue
		}
		for dim := 16; dim <= mostDim; dim += 16 {
			share := 8 << (Storage(dt) >> ShareShift)
			require.Equal(t, dt.ScaleWords(dim), (dim+share-1)/share, "%s, dim %d", dt, dim)
		}
	}
}
