package tokenizer

import (
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

// prefix puts a prefix before text that has none and goes on from no other text.
func (s *span) prefix(with string) {
	if !s.follows && !strings.HasPrefix(s.text, with) {
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

// prepend is what SentencePiece puts before every text that goes on from no other one.
func prepend(prefix string) step {
	return edit(func(s *span) {
		if !s.follows && s.text != "" {
			s.text = prefix + s.text
		}
	})
}

func (r *jsonReader) normalizer(p *part) (list []step) {
	growth := 1
	for _, p := range partsOf("normalizer", p) {
		switch p.Type {
		case "NFC":
			list = append(list, edit(nfc))
		case "Replace":
			replace := r.replacement(p, &growth)
			list = append(list, edit(func(s *span) { s.text = replace(s.text) }))
		case "Prepend":
			if growth *= 1 + len(p.Prepend); growth > maxGrowth {
				r.refuse(p.field, "a prefix of %d bytes", len(p.Prepend))
			}
			list = append(list, prepend(p.Prepend))
		default:
			r.refuse(p.field, "%q", p.Type)
		}
	}
	return list
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

func (r *jsonReader) preTokenizer(p *part) (list []step) {
	all := partsOf("pre_tokenizer", p)
	for i, p := range all {
		switch p.Type {
		case "Split":
			list = append(list, r.split(p, p.Behavior, p.Invert))
		case "Digits":
			behavior := map[bool]string{true: "Isolated", false: "Contiguous"}[p.IndividualDigits]
			list = append(list, r.split(p.matching(`\p{N}`), behavior, false))
		case "Metaspace": // makes spaces visible
			scheme := r.scheme(p)
			list = append(list, edit(func(s *span) {
				s.text = strings.ReplaceAll(s.text, " ", p.Replacement)
				if scheme != "never" && (scheme != "first" || s.begins) {
					s.prefix(p.Replacement)
				}
			}))
			if isTrue(p.Split) {
				p.Pattern.String = &p.Replacement
				list = append(list, r.split(p, "MergedWithNext", false))
			}
		case "ByteLevel": // makes every byte a character that can be seen
			if i < len(all)-1 {
				r.refuse(p.field, "a step after ByteLevel")
			}
			if isTrue(p.AddPrefixSpace) {
				list = append(list, edit(func(s *span) { s.prefix(" ") }))
			}
			if isTrue(p.UseRegex) {
				list = append(list, r.split(p.matching(`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+`+blanks), "Isolated", false))
			}
			list = append(list, edit(func(s *span) { s.text = visible.Replace(s.text) }))
		default:
			r.refuse(p.field, "%q", p.Type)
		}
	}
	return list
}
