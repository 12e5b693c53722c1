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

const (
	maxGrowth = 64 // times that normalizers or decoders may make a text longer
	maxBegin  = 16 // tokens before a text
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
			r.field = fmt.Sprintf("%s[%d]", kind, i)
		}
		if fused && p.Type != "Strip" {
			r.refuse("%q, after Fuse,", p.Type)
		}
		switch kind + " " + p.Type {
		case "normalizer NFC":
			add(edit(nfc))
		case "normalizer Replace", "decoder Replace":
			old := p.Pattern.String
			if old == nil || *old == "" {
				r.refuse("Replace of anything but a string")
				continue
			}
			if growth *= 1 + len(p.Content)/len(*old); growth > maxGrowth {
				r.refuse("Replace that makes a text many times longer")
			}
			add(replace(*old, p.Content))
		case "normalizer Prepend":
			if growth *= 1 + len(p.Prepend); growth > maxGrowth {
				r.refuse("a prefix of %d bytes", len(p.Prepend))
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
				r.refuse("a step after ByteLevel")
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
				r.refuse("%q", p.Type)
			}
			if p.Start != 1 || p.Stop != 0 {
				r.refuse(`"Strip" after Fuse, other than of the first character,`)
			}
			r.lead = func(piece string) string { return strings.TrimPrefix(piece, p.Content) }

		default:
			r.refuse("%q", p.Type)
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
			r.refuse("a template of anything but tokens before one text")
		}
	}
}

func isTrue(b *bool) bool { return b == nil || *b }

// scheme says where Metaspace puts a space before a text.
func (r *jsonReader) scheme(p part) string {
	if utf8.RuneCountInString(p.Replacement) != 1 || !slices.Contains([]string{"", "always", "first", "never"}, p.PrependScheme) {
		r.refuse("replacement %q with prepend_scheme %q", p.Replacement, p.PrependScheme)
	}
	if p.PrependScheme == "" && !isTrue(p.AddPrefixSpace) { // as older files have it
		return "never"
	}
	return p.PrependScheme
}
