package tokenizer

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// span is a part of a text on its way to tokens.
type span struct {
	text  string
	place place
	token uint32
	known bool // the span is the token, not text
}

// place is where a span lies, for what is put before texts.
type place int

const (
	inside    place = iota // behind another span
	beginning              // of a text
	following              // at the beginning of a text that goes on from another one
)

// part appends what lies from begin to end, if it is anything.
func (s span) part(list []span, begin, end int) []span {
	if begin == end {
		return list
	}
	p := span{text: s.text[begin:end]}
	if begin == 0 {
		p.place = s.place
	}
	return append(list, p)
}

// pipeline is what a tokenizer.json does to a text, in order.
type pipeline struct {
	raw        trie // added tokens
	normalizer []edit
	normal     trie // added tokens of normalized text
	splitters  []func(span) []span
	model      bpe
}

// edit changes the text of a span.
type edit func(text string, at place) string

func (p *pipeline) normalize(text string, at place) string {
	for _, step := range p.normalizer {
		text = step(text, at)
	}
	return text
}

func (p *pipeline) encode(text string, begins bool) (tokens []uint32) {
	whole := span{text: text, place: following}
	if begins {
		whole.place = beginning
	}
	for _, s := range p.raw.cut(whole) {
		list := []span{s}
		if !s.known {
			s.text = p.normalize(s.text, s.place)
			list = p.normal.cut(s)
		}
		for _, s := range list {
			tokens = p.words(s, p.splitters, tokens)
		}
	}
	return tokens
}

// words appends the tokens of a span, which the splitters divide one after the other.
func (p *pipeline) words(s span, splitters []func(span) []span, tokens []uint32) []uint32 {
	if s.known {
		return append(tokens, s.token)
	}
	if len(splitters) == 0 {
		return p.model.encode(s.text, tokens)
	}
	for _, s := range splitters[0](s) {
		tokens = p.words(s, splitters[1:], tokens)
	}
	return tokens
}

func (r *jsonReader) readNormalizer(p *part) {
	growth := 1
	for _, p := range steps("normalizer", p) {
		var step edit
		switch p.Type {
		case "NFC":
			step = nfc
		case "Replace":
			replace := r.replacement(p, &growth)
			step = func(text string, _ place) string { return replace(text) }
		case "Prepend":
			if growth *= 1 + len(p.Prepend); growth > maxGrowth {
				r.refuse(p.field, "a prefix of %d bytes", len(p.Prepend))
			}
			step = func(text string, at place) string {
				if at == following {
					return text
				}
				return p.Prepend + text
			}
		default:
			r.refuse(p.field, "%q", p.Type)
		}
		r.normalizer = append(r.normalizer, step)
	}
}

// nfc composes characters. The package puts a joiner after every 30 marks on one
// character, which is taken out again; beyond 30 they may stay in their order.
func nfc(text string, _ place) string {
	const joiner = "\u034f"
	out := norm.NFC.String(text)
	if !strings.Contains(text, joiner) {
		out = strings.ReplaceAll(out, joiner, "")
	}
	return out
}

// prefix puts a prefix before text that has none and follows no other text.
func prefix(prefix, text string, at place) string {
	if at == following || strings.HasPrefix(text, prefix) {
		return text
	}
	return prefix + text
}

// edit appends a step that divides nothing.
func (r *jsonReader) edit(change edit) {
	r.splitters = append(r.splitters, func(s span) []span {
		s.text = change(s.text, s.place)
		return []span{s}
	})
}

func (r *jsonReader) readPreTokenizer(p *part) {
	list := steps("pre_tokenizer", p)
	for i, p := range list {
		switch p.Type {
		case "Split":
			r.split(p, p.Behavior, p.Invert)
		case "Digits":
			behavior := "Contiguous"
			if p.IndividualDigits {
				behavior = "Isolated"
			}
			r.split(p.matching(`\p{N}`), behavior, false)
		case "Metaspace": // makes spaces visible
			scheme := r.scheme(p)
			r.edit(func(text string, at place) string {
				text = strings.ReplaceAll(text, " ", p.Replacement)
				if scheme == "never" || scheme == "first" && at != beginning {
					return text
				}
				return prefix(p.Replacement, text, at)
			})
			if isTrue(p.Split) {
				p.Pattern.String = &p.Replacement
				r.split(p, "MergedWithNext", false)
			}
		case "ByteLevel": // makes every byte a character that can be seen
			if i < len(list)-1 {
				r.refuse(p.field, "a step after ByteLevel")
			}
			if isTrue(p.AddPrefixSpace) {
				r.edit(func(text string, at place) string { return prefix(" ", text, at) })
			}
			if isTrue(p.UseRegex) {
				r.split(p.matching(`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+`+blanks), "Isolated", false)
			}
			r.edit(func(text string, _ place) string { return visible.Replace(text) })
		default:
			r.refuse(p.field, "%q", p.Type)
		}
	}
}
