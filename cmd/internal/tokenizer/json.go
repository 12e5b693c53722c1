package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
)

// jsonFile is a tokenizer.json.
type jsonFile struct {
	Truncation, Padding json.RawMessage
	AddedTokens         addedTokens `json:"added_tokens"`
	Normalizer          section
	PreTokenizer        section `json:"pre_tokenizer"`
	PostProcessor       section `json:"post_processor"`
	Decoder             section
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
		Merges        json.RawMessage // mergePairs
	}
}

// section is a part, or parts, of the file. Decoded, it takes many times its bytes, which are therefore limited.
type section struct{ *part }

const maxSection = 64 << 10 // bytes, more than any supported part has; the tables of a Precompiled normalizer are larger

func (s *section) UnmarshalJSON(data []byte) error {
	if len(data) > maxSection { // is refused by this name
		var large struct{ Type string }
		err := json.Unmarshal(data, &large)
		s.part = &part{Type: fmt.Sprintf("%s of %d bytes", large.Type, len(data))}
		return err
	}
	return json.Unmarshal(data, &s.part)
}

// addedTokens are decoded one after another: one without a text has no effect.
type addedTokens []addedToken

func (all *addedTokens) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if first, err := d.Token(); err != nil || first != json.Delim('[') {
		return cmp.Or(err, json.Unmarshal(data, (*[]addedToken)(all))) // null, or not a list
	}
	for d.More() {
		var t addedToken
		if err := d.Decode(&t); err != nil {
			return err
		}
		if *all = append(*all, t); t.Content == "" {
			break // and is refused
		}
	}
	return nil
}

func given(value json.RawMessage) bool { return value != nil && string(value) != "null" }

// mergePair is two tokens that become one, as a list or with a space between them.
type mergePair [2]string

func (m *mergePair) UnmarshalJSON(data []byte) (err error) {
	var text string
	var list []string
	if data[0] == '[' {
		err = json.Unmarshal(data, &list)
	} else {
		err = json.Unmarshal(data, &text)
		list = strings.Split(text, " ")
	}
	if err == nil && len(list) != 2 {
		err = fmt.Errorf("merge %s has %d tokens, need 2", data, len(list))
	}
	copy(m[:], list)
	return err
}

// jsonReader makes a tokenizer of a tokenizer.json. The first failure stays in err.
type jsonReader struct {
	file
	*Tokenizer
	taken    []bool // those in the vocabulary
	field    string // of the part that is read
	patterns int    // length of the regular expressions
	err      error
}

func (r *jsonReader) keep(err error) { r.err = cmp.Or(r.err, err) }

// What to do about a tokenizer.json that is not read.
const (
	another = "; name the tokenizer.json of the model that this one was made of with --tokenizer, or take a GGUF file of the model, which has its vocabulary inside"
	toNull  = "it encodes texts as they are, each time the same: set it to null in the file"
)

// refuse refuses a field of the part that is read. reads is what it may be.
func (r *jsonReader) refuse(reads, format string, a ...any) {
	if r.err == nil {
		r.err = r.unsupported(reads+another, r.field+format, a...)
	}
}

func readJSON(name string, data []byte, vocab int) (*Tokenizer, error) {
	var f jsonFile
	err := json.Unmarshal(data, &f)
	return f.tokenizer(name, vocab, err)
}

// tokenizer is that of a file, which was read with an error or without.
func (f *jsonFile) tokenizer(name string, vocab int, err error) (*Tokenizer, error) {
	r := &jsonReader{file: file(name), Tokenizer: &Tokenizer{pieces: make([]string, vocab), lead: strings.Clone, names: map[uint32]string{}}, taken: make([]bool, vocab)}
	switch m := &f.Model; {
	case m.Type != "" && m.Type != "BPE":
		return nil, r.unsupported("it reads BPE"+another, "model.type %q", m.Type)
	case err != nil:
		field, why := modelfile.JSON(err)
		if field != "JSON" {
			field = strings.ToLower(field)
		}
		return nil, r.bad(field, "%s", why)
	case given(f.Truncation):
		return nil, r.unsupported(toNull, "truncation")
	case given(f.Padding):
		return nil, r.unsupported(toNull, "padding")
	case m.Dropout != 0:
		return nil, r.unsupported(toNull, "model.dropout %g", m.Dropout)
	case m.SubwordPrefix != "":
		return nil, r.unsupported("it reads vocabularies without one"+another, "model.continuing_subword_prefix %q", m.SubwordPrefix)
	case m.WordSuffix != "":
		return nil, r.unsupported("it reads vocabularies without one"+another, "model.end_of_word_suffix %q", m.WordSuffix)
	case f.Decoder.part == nil:
		return nil, r.unsupported(kinds["decoder"].reads()+another, "decoder null")
	}
	normalizers, preTokenizers := r.parts("normalizer", f.Normalizer.part), r.parts("pre_tokenizer", f.PreTokenizer.part)
	r.parts("post_processor", f.PostProcessor.part)
	decoders := r.parts("decoder", f.Decoder.part)
	if r.err == nil {
		r.keep(r.readModel(f, decoders))
		raw, normal := r.added(f.AddedTokens, normalizers, decoders)
		r.steps = slices.Concat([]step{cutter(raw)}, normalizers, []step{cutter(normal)}, preTokenizers)
	}
	return r.Tokenizer, r.err
}

// readModel reads the vocabulary, and the text of every token.
func (r *jsonReader) readModel(f *jsonFile, decoders []step) error {
	m := &f.Model
	r.model = bpe{vocab: m.Vocab, merges: map[[2]int]merged{}, bytes: map[byte]int{},
		unk: -1, fuse: m.FuseUnk, whole: m.IgnoreMerges}
	for text, id := range m.Vocab {
		if uint64(id) >= uint64(len(r.pieces)) || r.taken[id] {
			return r.bad("model.vocab", "%q is token %d, which is another one or beyond the model's %d", text, id, len(r.pieces))
		}
		r.taken[id], r.pieces[id] = true, edited(text, decoders)
	}
	if !given(m.Merges) {
		m.Merges = json.RawMessage("[]")
	}
	merges := json.NewDecoder(bytes.NewReader(m.Merges))
	if first, err := merges.Token(); err != nil || first != json.Delim('[') {
		return r.bad("model.merges", "is not a list")
	}
	for i := 0; merges.More(); i++ { // one after another: decoded, one takes many times its bytes
		var pair mergePair
		if err := merges.Decode(&pair); err != nil {
			return r.bad("model.merges", "%v", err)
		}
		if err := r.model.pair(r.file, pair[0], pair[1], i); err != nil {
			return err
		}
	}
	if m.UnkToken != nil {
		id, ok := m.Vocab[*m.UnkToken]
		if !ok {
			return r.bad("model.unk_token", "%q is no token", *m.UnkToken)
		}
		r.model.unk = int(id)
	}
	for name, b := range byteNames {
		if id, ok := m.Vocab[name]; ok && m.ByteFallback {
			r.model.bytes[b[0]] = int(id)
		}
	}
	return nil
}
