package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// part is a normalizer, pre-tokenizer, post-processor or decoder. Each type has some of the settings.
type part struct {
	Type                                             string
	Normalizers, Pretokenizers, Processors, Decoders []part // of a Sequence

	Pattern                                 pattern
	Content, Prepend, Behavior, Replacement string
	Invert                                  bool
	Start, Stop                             int
	AddPrefixSpace                          *bool  `json:"add_prefix_space"`
	UseRegex                                *bool  `json:"use_regex"`
	IndividualDigits                        bool   `json:"individual_digits"`
	PrependScheme                           string `json:"prepend_scheme"`
	Split                                   *bool
	Single                                  []map[string]*struct{ ID string }
	SpecialTokens                           map[string]struct{ IDs []uint32 } `json:"special_tokens"`
}

// kinds are the parts of a file: the list that a Sequence of them has, and the types that are read.
var kinds = map[string]kind{
	"normalizer":     {"normalizers", "NFC, Prepend, Replace"},
	"pre_tokenizer":  {"pretokenizers", "ByteLevel, Digits, Metaspace, Split"},
	"post_processor": {"processors", "ByteLevel, TemplateProcessing"},
	"decoder":        {"decoders", "ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip"},
}

type kind struct{ list, types string }

func (k kind) reads() string { return "it reads " + k.types + ", and a Sequence of them" }

const (
	maxGrowth = 64 // times that normalizers or decoders may make a text longer
	maxBegin  = 16 // tokens before a text
	longer    = "it makes texts at most 64 times longer"
)

// parts gives the steps of a part, or of those of a sequence, and takes what else they say. kind is its field.
func (r *jsonReader) parts(kind string, whole *part) (list []step) {
	whole = cmp.Or(whole, &part{Type: "Sequence"}) // of no parts
	all, growth, fused := []part{*whole}, 1, false // fused: a decoder Fuse was before
	if whole.Type == "Sequence" {
		all = slices.Concat(whole.Normalizers, whole.Pretokenizers, whole.Processors, whole.Decoders)
	}
	add := func(steps ...step) { list = append(list, steps...) }
	for i, p := range all {
		r.field = kind
		if whole.Type == "Sequence" {
			r.field = fmt.Sprintf("%s.%s[%d]", kind, kinds[kind].list, i)
		}
		if fused && p.Type != "Strip" {
			r.refuse("of decoders after Fuse it reads Strip", ".type %q after Fuse", p.Type)
		}
		switch kind + " " + p.Type {
		case "normalizer NFC":
			add(edit(nfc))
		case "normalizer Replace", "decoder Replace":
			old := p.Pattern.String
			if old == nil || *old == "" {
				r.refuse("it replaces a String", ".pattern of a Replace")
				continue
			}
			if growth *= 1 + len(p.Content)/len(*old); growth > maxGrowth {
				r.refuse(longer, ".content of %d bytes", len(p.Content))
			}
			add(replace(*old, p.Content))
		case "normalizer Prepend":
			if growth *= 1 + len(p.Prepend); growth > maxGrowth {
				r.refuse(longer, ".prepend of %d bytes", len(p.Prepend))
			}
			add(edit(func(s *span) { s.prefix(p.Prepend, true) }))

		case "pre_tokenizer Split":
			add(r.split(p.Pattern, p.Behavior, p.Invert))
		case "pre_tokenizer Digits":
			behavior := map[bool]string{true: "Isolated", false: "Contiguous"}[p.IndividualDigits]
			add(r.split(pattern{Regex: new(`\p{N}`)}, behavior, false))
		case "pre_tokenizer Metaspace": // makes spaces visible
			scheme := r.scheme(p)
			add(replace(" ", p.Replacement), edit(func(s *span) {
				if scheme != "never" && (scheme != "first" || s.begins) {
					s.prefix(p.Replacement, false)
				}
			}))
			if isTrue(p.Split) {
				add(r.split(pattern{String: &p.Replacement}, "MergedWithNext", false))
			}
		case "pre_tokenizer ByteLevel": // makes every byte a character that can be seen
			if i < len(all)-1 {
				r.refuse("it reads ByteLevel as the last of a Sequence", ".type %q before others", p.Type)
			}
			if isTrue(p.AddPrefixSpace) {
				add(edit(func(s *span) { s.prefix(" ", false) }))
			}
			if isTrue(p.UseRegex) {
				add(r.split(pattern{Regex: new(words + blanks)}, "Isolated", false))
			}
			add(edit(func(s *span) { s.text = visible.Replace(s.text) }))

		case "post_processor ByteLevel": // is about offsets
		case "post_processor TemplateProcessing":
			r.template(p)

		case "decoder ByteLevel":
			add(edit(hidden))
		case "decoder ByteFallback":
			add(edit(func(s *span) { s.text = cmp.Or(byteNames[s.text], s.text) }))
		case "decoder Metaspace":
			if r.scheme(p) != "never" {
				r.lead = func(piece string) string { return strings.ReplaceAll(piece, " ", "") }
			}
			add(replace(p.Replacement, " "))
		case "decoder Fuse":
			fused = true
		case "decoder Strip":
			if !fused {
				r.refuse("it reads Strip after Fuse", ".type %q before Fuse", p.Type)
			}
			if p.Start != 1 || p.Stop != 0 {
				r.refuse("it strips the first character: start 1, stop 0", ".start %d with stop %d", p.Start, p.Stop)
			}
			r.lead = func(piece string) string { return strings.TrimPrefix(piece, p.Content) }

		default:
			r.refuse(kinds[kind].reads(), ".type %q", p.Type)
		}
	}
	return list
}

// template reads what a text begins with.
func (r *jsonReader) template(p part) {
	for i, item := range p.Single {
		token, last := item["SpecialToken"], i == len(p.Single)-1
		switch {
		case last && item["Sequence"] != nil:
		case !last && token != nil:
			ids := p.SpecialTokens[token.ID].IDs
			if len(ids) == 0 || len(r.begin)+len(ids) > maxBegin || uint64(slices.Max(ids)) >= uint64(len(r.pieces)) {
				r.keep(r.bad(r.field, "%q is no token of the model's %d, or too many", token.ID, len(r.pieces)))
				return
			}
			r.begin = append(r.begin, ids...)
		default:
			r.refuse("it reads special tokens before one Sequence", ".single[%d]", i)
		}
	}
}

func isTrue(b *bool) bool { return b == nil || *b }

// scheme says where Metaspace puts a space before a text.
func (r *jsonReader) scheme(p part) string {
	if utf8.RuneCountInString(p.Replacement) != 1 {
		r.refuse("it reads one character", ".replacement %q", p.Replacement)
	}
	if !slices.Contains([]string{"", "always", "first", "never"}, p.PrependScheme) {
		r.refuse("it reads always, first and never", ".prepend_scheme %q", p.PrependScheme)
	}
	if p.PrependScheme == "" && !isTrue(p.AddPrefixSpace) { // as older files have it
		return "never"
	}
	return p.PrependScheme
}
