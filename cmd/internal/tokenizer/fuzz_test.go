package tokenizer

import (
	"strings"
	"testing"
)

// Whatever a file holds, its reader gives a tokenizer or a typed error, and needs memory
// in proportion to the file. What it gives encodes any text, and decodes any token.
func fuzzRead(f *testing.F, name string, vocab int, seeds ...[]byte) {
	for _, seed := range seeds {
		f.Add(seed)
		f.Add(seed[:len(seed)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, len(data), func() {
			tok, err := Read(name, data, vocab)
			if typed(t, err); err != nil {
				return
			}
			d := tok.Decoder()
			for _, token := range append(tok.Encode("ab a1 é\xff"), tok.EncodeMore(" ab\n")...) {
				d.Add(token)
			}
			d.Rest()
		})
	})
}

func FuzzLlama2c(f *testing.F) {
	fuzzRead(f, "tokenizer.bin", 5, concat(u32(7), make([]byte, 24), u32(0), u32(6), []byte("<0x0A>"), u32(0), u32(1), []byte("a")))
}

func FuzzJSON(f *testing.F) {
	fuzzRead(f, "tokenizer.json", 16, llama2(nil), llama3(nil),
		crafted([]string{"a", "b", "ab"}, list("a b"), object{"pre_tokenizer": split(`[^\s]?a+| b{1,2}`+blanks, "Isolated")}),
		crafted([]string{"<0x0A>", "▁", "a"}, list(), object{"pre_tokenizer": object{"type": "Metaspace", "replacement": "▁"},
			"added_tokens": list(object{"id": 5, "content": " é", "lstrip": true, "rstrip": true, "single_word": true, "normalized": true})}))
}

// A byte-level vocabulary loses nothing, and one of characters with all bytes nothing but
// the difference between its mark for a space and a space.
func FuzzText(f *testing.F) {
	bytewise := read(f, llama3(nil))
	pieces := read(f, llama2(object{"added_tokens": list(), "post_processor": nil}))
	for _, text := range []string{"", "hello  world\n", "a b  c ", "é\xff\xe2\x82", "'Ll 1234 \u3000x", "<s></s>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := raw(bytewise, bytewise.Encode(text)); got != text {
			t.Fatalf("%q became %q", text, got)
		}
		spaces := func(text string) string { return strings.ReplaceAll(text, "▁", " ") }
		if got := raw(pieces, pieces.EncodeMore(text)); got != spaces(text) {
			t.Fatalf("%q became %q", text, got)
		}
		if got := decode(pieces, pieces.Encode(text)); got != spaces(string([]rune(text))) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
