package load

import (
	"math/rand/v2"
	"strings"
)

// A word is two of 64 syllables: short, and of letters that any tokenizer has.
const consonants, vowels = "bdfghjklmnprstvz", "aeio"

// wordBits say which word it is.
const wordBits = 12

// writeWords writes n words, each after a blank.
func writeWords(out *strings.Builder, random *rand.PCG, n int) {
	var bits uint64
	left := 0
	for range n {
		if left < wordBits {
			bits, left = random.Uint64(), 64
		}
		out.WriteByte(' ')
		for range 2 {
			out.WriteByte(consonants[bits&15])
			out.WriteByte(vowels[bits>>4&3])
			bits >>= 6
		}
		left -= wordBits
	}
}
