package tokenizer

import (
	"cmp"
	"fmt"
	"strings"
)

// decoder gives what makes the text of a token of its name in the vocabulary.
func (r *jsonReader) decoder(p *part) func(string) string {
	growth, fused := 1, false
	var changes []func(string) string
	if p == nil {
		r.refuse("decoder", "none")
	}
	for _, p := range partsOf("decoder", p) {
		switch {
		case p.Type == "Strip" && fused && p.Start == 1 && p.Stop == 0:
			r.lead = func(piece string) string { return strings.TrimPrefix(piece, p.Content) }
		case fused:
			r.refuse(p.field, "%q after Fuse, other than of the first character,", p.Type)
		case p.Type == "Fuse":
			fused = true
		case p.Type == "Replace":
			changes = append(changes, r.replacement(p, &growth))
		case p.Type == "ByteFallback":
			changes = append(changes, func(name string) string { return cmp.Or(byteNames[name], name) })
		case p.Type == "ByteLevel":
			changes = append(changes, hidden)
		case p.Type == "Metaspace":
			if r.scheme(p) != "never" {
				r.lead = func(piece string) string { return strings.ReplaceAll(piece, " ", "") }
			}
			changes = append(changes, func(name string) string { return strings.ReplaceAll(name, p.Replacement, " ") })
		default:
			r.refuse(p.field, "%q", p.Type)
		}
	}
	return func(name string) string {
		for _, change := range changes {
			name = change(name)
		}
		return name
	}
}

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

// hidden is the bytes that a token in the alphabet stands for. Other tokens, as added ones, are text.
func hidden(token string) string {
	var out []byte
	for _, r := range token {
		b, ok := alphabet[r]
		if !ok {
			return token
		}
		out = append(out, b)
	}
	return string(out)
}
