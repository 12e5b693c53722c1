package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	normalizers, preTokenizers := r.parts("normalizer", f.Normalizer), r.parts("pre_tokenizer", f.PreTokenizer)
	r.parts("post_processor", f.PostProcessor)
	if f.Decoder == nil {
		r.refuse("decoder", "none")
	}
	decoders := r.parts("decoder", f.Decoder)
	if r.err == nil {
		r.readModel(&f, decoders)
	}
	if r.err == nil {
		raw, normal := r.added(f.AddedTokens, normalizers, decoders)
		r.steps = slices.Concat([]step{raw.cut}, normalizers, []step{normal.cut}, preTokenizers)
	}
	return r.Tokenizer, r.err
}
