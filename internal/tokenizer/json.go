package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonFile is a tokenizer.json.
type jsonFile struct {
	Truncation, Padding any
	AddedTokens         []addedToken `json:"added_tokens"`
	Normalizer          *part
	PreTokenizer        *part `json:"pre_tokenizer"`
	PostProcessor       *part `json:"post_processor"`
	Decoder             *part
	Model               struct {
		Type          string
		Dropout       float64
		UnkToken      *string `json:"unk_token"`
		SubwordPrefix string  `json:"continuing_subword_prefix"`
		WordSuffix    string  `json:"end_of_word_suffix"`
		FuseUnk       bool    `json:"fuse_unk"`
		ByteFallback  bool    `json:"byte_fallback"`
		IgnoreMerges  bool    `json:"ignore_merges"`
		Vocab         map[string]uint32
		Merges        []mergePair
	}
}

// part is a normalizer, pre-tokenizer, post-processor or decoder. Each type has some of the settings.
type part struct {
	Type                                             string
	Normalizers, Pretokenizers, Processors, Decoders []part // of a Sequence

	Pattern          struct{ String, Regex *string }
	Content, Prepend string
	Behavior         string
	Invert           bool
	Start, Stop      int
	AddPrefixSpace   *bool  `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
	IndividualDigits bool   `json:"individual_digits"`
	PrependScheme    string `json:"prepend_scheme"`
	Replacement      string
	Split            *bool
	Single           []struct {
		SpecialToken, Sequence *struct{ ID string }
	}
	SpecialTokens map[string]struct{ IDs []uint32 } `json:"special_tokens"`

	field string // where it is in the file
}

// mergePair is two tokens that become one, as a list or with a space between them.
type mergePair [2]string

func (m *mergePair) UnmarshalJSON(data []byte) error {
	var text string
	var list []string
	into := any(&text)
	if data[0] == '[' {
		into = &list
	}
	if err := json.Unmarshal(data, into); err != nil {
		return err
	}
	if list == nil {
		list = strings.Split(text, " ")
	}
	if len(list) != 2 {
		return fmt.Errorf("merge %s has %d tokens, need 2", data, len(list))
	}
	*m = mergePair(list)
	return nil
}

// matching is p with a regular expression.
func (p part) matching(pattern string) part {
	p.Pattern.Regex = &pattern
	return p
}

// jsonReader makes a tokenizer of a tokenizer.json. The first failure stays in err.
type jsonReader struct {
	file
	*Tokenizer
	taken    []bool // those in the vocabulary
	patterns int    // length of the regular expressions
	err      error
}

func (r *jsonReader) keep(err error) { r.err = cmp.Or(r.err, err) }

func (r *jsonReader) refuse(field, format string, a ...any) {
	r.keep(r.unsupported("%s: "+format, append([]any{field}, a...)...))
}

func readJSON(name string, data []byte, vocab int) (*Tokenizer, error) {
	r := &jsonReader{file: file(name), Tokenizer: &Tokenizer{pieces: make([]string, vocab), lead: strings.Clone}, taken: make([]bool, vocab)}
	var f jsonFile
	err := json.Unmarshal(data, &f)
	if kind := f.Model.Type; kind != "" && kind != "BPE" {
		return nil, r.unsupported("model.type %q", kind)
	}
	if err != nil {
		field := "JSON"
		if typed := (*json.UnmarshalTypeError)(nil); errors.As(err, &typed) && typed.Field != "" {
			field = strings.ToLower(typed.Field)
		}
		return nil, r.bad(field, "%v", err)
	}
	if f.Truncation != nil || f.Padding != nil {
		return nil, r.unsupported("truncation or padding")
	}
	normalizer, splitters := r.normalizer(f.Normalizer), r.preTokenizer(f.PreTokenizer)
	r.readPostProcessor(f.PostProcessor)
	decode := r.decoder(f.Decoder)
	if r.err == nil {
		r.readModel(&f, decode)
	}
	if r.err == nil {
		raw, normal := r.added(f.AddedTokens, normalizer, decode)
		r.steps = slices.Concat([]step{raw.cut}, normalizer, []step{normal.cut}, splitters)
	}
	return r.Tokenizer, r.err
}

// partsOf are the parts of a sequence in order, or the only one.
func partsOf(field string, p *part) (list []part) {
	if p == nil {
		return nil
	}
	if p.Type != "Sequence" {
		p.field = field
		return []part{*p}
	}
	list = slices.Concat(p.Normalizers, p.Pretokenizers, p.Processors, p.Decoders)
	for i := range list {
		list[i].field = fmt.Sprintf("%s[%d]", field, i)
	}
	return list
}

const (
	maxGrowth = 64 // times that normalizers or decoders may make a text longer
	maxBegin  = 16 // tokens before a text
)

// replacement is a step that replaces a string.
func (r *jsonReader) replacement(p part, growth *int) func(string) string {
	if p.Pattern.String == nil || *p.Pattern.String == "" {
		r.refuse(p.field, "Replace of anything but a string")
		return nil
	}
	old, now := *p.Pattern.String, p.Content
	if *growth *= 1 + len(now)/len(old); *growth > maxGrowth {
		r.refuse(p.field, "Replace that makes a text many times longer")
	}
	return func(text string) string { return strings.ReplaceAll(text, old, now) }
}

// readPostProcessor reads what a text begins with.
func (r *jsonReader) readPostProcessor(p *part) {
	for _, p := range partsOf("post_processor", p) {
		switch p.Type {
		case "ByteLevel": // is about offsets
		case "TemplateProcessing":
			for i, item := range p.Single {
				switch {
				case item.Sequence != nil && i == len(p.Single)-1:
				case item.SpecialToken != nil && i < len(p.Single)-1:
					ids := p.SpecialTokens[item.SpecialToken.ID].IDs
					if len(ids) == 0 || len(r.begin)+len(ids) > maxBegin || uint64(slices.Max(ids)) >= uint64(len(r.pieces)) {
						r.keep(r.bad(p.field, "%q is no token of the model's %d, or too many", item.SpecialToken.ID, len(r.pieces)))
						return
					}
					r.begin = append(r.begin, ids...)
				default:
					r.refuse(p.field, "a template of anything but tokens before one text")
				}
			}
		default:
			r.refuse(p.field, "%q", p.Type)
		}
	}
}

func isTrue(b *bool) bool { return b == nil || *b }

// scheme says where Metaspace puts a space before a text.
func (r *jsonReader) scheme(p part) string {
	if utf8.RuneCountInString(p.Replacement) != 1 || !slices.Contains([]string{"", "always", "first", "never"}, p.PrependScheme) {
		r.refuse(p.field, "replacement %q with prepend_scheme %q", p.Replacement, p.PrependScheme)
	}
	if p.PrependScheme == "" && !isTrue(p.AddPrefixSpace) { // as older files have it
		return "never"
	}
	return p.PrependScheme
}
