package tokenizer

import (
	"fmt"
	"strings"
)

// byteNames is the byte of each name that SentencePiece gives to one.
var byteNames = map[string]string{}

// visible writes bytes in the alphabet of byte-level vocabularies, in which each is a
// character: itself if it can be seen, else one from U+0100 on. alphabet is the way back.
var (
	visible  *strings.Replacer
	alphabet = map[rune]byte{}
)

func init() {
	var pairs []string
	unseen := rune(0x100)
	for b := range rune(256) {
		char := b
		if b <= ' ' || b > '~' && b < 0xa1 || b == 0xad {
			char = unseen
			unseen++
		}
		byteNames[fmt.Sprintf("<0x%02X>", b)] = string([]byte{byte(b)})
		pairs = append(pairs, string([]byte{byte(b)}), string(char))
		alphabet[char] = byte(b)
	}
	visible = strings.NewReplacer(pairs...)
}

// hidden gives the bytes that a token in the alphabet stands for. Other tokens, as added ones, are text.
func hidden(s *span) {
	var out []byte
	for _, r := range s.text {
		b, ok := alphabet[r]
		if !ok {
			return
		}
		out = append(out, b)
	}
	s.text = string(out)
}
