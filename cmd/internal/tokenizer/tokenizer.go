// Package tokenizer turns text into tokens and tokens into text, with the vocabularies that models bring: tokenizer files of
// llama2.c, tokenizer.json of Hugging Face, SentencePiece's pieces in GGUF, or plain bytes.
package tokenizer

import (
	"fmt"
	"path"
	"slices"
	"unicode/utf8"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
)

// Tokenizer is a vocabulary. It is not changed by use and safe for concurrent use.
type Tokenizer struct {
	begin  []uint32                  // what a text begins with: BOS where the vocabulary says so
	pieces []string                  // the text of each token, maybe a part of a character; none for special tokens
	lead   func(piece string) string // takes from the first piece of a text what encoding put there
	steps  []step                    // what a text goes through, in order, before the model makes tokens of it
	model  bpe
	spoken step              // in place of the first step, finds control tokens, too; nil: that one does
	names  map[uint32]string // of control tokens
}

// Spoken is the tokenizer of texts in which the names of control tokens stand for these, as in what chat templates make.
func (t *Tokenizer) Spoken() *Tokenizer {
	if t.spoken == nil {
		return t
	}
	out := *t
	out.steps = append([]step{t.spoken}, t.steps[1:]...)
	return &out
}

// Read reads a tokenizer file for a model with a vocabulary of vocab tokens: a tokenizer.json of Hugging Face, or else a
// tokenizer file of llama2.c. Errors are modelfile.ErrFile and modelfile.ErrUnsupported, which name the field.
func Read(name string, data []byte, vocab int) (*Tokenizer, error) {
	switch path.Ext(name) {
	case ".json":
		return readJSON(name, data, vocab)
	case ".model":
		return nil, file(name).unsupported("it reads tokenizer.json, which most models have beside it, and which transformers writes of it (AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OUT))", "SentencePiece's own file")
	}
	return readLlama2c(name, data, vocab)
}

// Encode gives the tokens of text, with the BOS of the vocabulary first.
func (t *Tokenizer) Encode(text string) []uint32 {
	return t.encode(span{text: text, begins: true}, t.steps, slices.Clip(t.begin))
}

// EncodeMore gives the tokens of text that goes on from other text.
func (t *Tokenizer) EncodeMore(text string) []uint32 {
	return t.encode(span{text: text, follows: true}, t.steps, nil)
}

// encode appends the tokens of a span that goes through steps.
func (t *Tokenizer) encode(s span, steps []step, tokens []uint32) []uint32 {
	if s.known {
		return append(tokens, s.token)
	}
	if len(steps) == 0 {
		return t.model.encode(s.text, tokens)
	}
	for _, s := range steps[0](s) {
		tokens = t.encode(s, steps[1:], tokens)
	}
	return tokens
}

// Piece is what a token stands for: a part of a character where the vocabulary
// has it in bytes, nothing for a token that is special or not in the vocabulary.
func (t *Tokenizer) Piece(token uint32) string {
	if uint64(token) >= uint64(len(t.pieces)) {
		return ""
	}
	return t.pieces[token]
}

// Control is the name of a control token, such as "<|end|>"; "" for other tokens.
func (t *Tokenizer) Control(token uint32) string { return t.names[token] }

// Decoder turns tokens into text as they come. It gives whole characters, and U+FFFD for every byte that is a part of none.
type Decoder struct {
	*Tokenizer
	begun bool
	held  string // of a character that is not complete
}

// Decoder decodes what follows after the tokens before.
func (t *Tokenizer) Decoder(before ...uint32) *Decoder {
	return &Decoder{Tokenizer: t, begun: slices.ContainsFunc(before, func(token uint32) bool { return t.Piece(token) != "" })}
}

// Add is the text that is complete with token.
func (d *Decoder) Add(token uint32) string {
	piece := d.Piece(token)
	if !d.begun && piece != "" {
		d.begun, piece = true, d.lead(piece)
	}
	d.held += piece
	var text []rune
	for utf8.FullRuneInString(d.held) {
		char, size := utf8.DecodeRuneInString(d.held)
		text, d.held = append(text, char), d.held[size:]
	}
	return string(text)
}

// Whole reports whether the text so far ends with a whole character.
func (d *Decoder) Whole() bool { return d.held == "" }

// Rest is what is left when no token follows.
func (d *Decoder) Rest() string {
	text := string([]rune(d.held))
	d.held = ""
	return text
}

// file names a file in errors.
type file string

func (f file) bad(field, format string, a ...any) error {
	return modelfile.ErrFile{File: string(f), Field: field, Why: fmt.Sprintf(format, a...)}
}

// unsupported refuses a sound file for a feature, and says what to do.
func (f file) unsupported(remedy, format string, a ...any) error {
	return modelfile.ErrUnsupported{File: string(f), Feature: fmt.Sprintf(format, a...), Remedy: remedy}
}
