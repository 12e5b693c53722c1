package tokenizer

import (
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// span is a part of a text on its way to tokens, or such a token.
type span struct {
	text    string
	begins  bool // the text
	follows bool // another text: nothing is put before it
	token   uint32
	known   bool // the span is the token
}

// part appends what lies from begin to end, if it is anything.
func (s span) part(list []span, begin, end int) []span {
	if begin == end {
		return list
	}
	return append(list, span{text: s.text[begin:end], begins: s.begins && begin == 0, follows: s.follows && begin == 0})
}

// prefix puts a prefix before text that goes on from no other text, and again where it has one already.
func (s *span) prefix(with string, again bool) {
	if !s.follows && s.text != "" && (again || !strings.HasPrefix(s.text, with)) {
		s.text = with + s.text
	}
}

// step changes or divides a span of text.
type step func(span) []span

// edit is a step that divides nothing.
func edit(change func(*span)) step {
	return func(s span) []span {
		change(&s)
		return []span{s}
	}
}

func replace(old, now string) step {
	return edit(func(s *span) { s.text = strings.ReplaceAll(s.text, old, now) })
}

// edited is a text after steps that divide nothing.
func edited(text string, steps []step) string {
	s := span{text: text}
	for _, step := range steps {
		s = step(s)[0]
	}
	return s.text
}

// nfc composes characters. The package puts a joiner after every 30 marks on one
// character, which is taken out again; beyond 30 they may stay in their order.
func nfc(s *span) {
	const joiner = "\u034f"
	had := strings.Contains(s.text, joiner)
	if s.text = norm.NFC.String(s.text); !had {
		s.text = strings.ReplaceAll(s.text, joiner, "")
	}
}

var (
	byteNames = map[string]string{} // the byte of each name that SentencePiece gives to one
	// visible writes bytes in the alphabet of byte-level vocabularies, in which each is a
	// character: itself if it can be seen, else one from U+0100 on. alphabet is the way back.
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

// hidden gives the bytes that a token in the alphabet stands for. Other tokens, such as added ones, are text.
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
