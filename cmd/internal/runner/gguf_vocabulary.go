package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
)

// specials are the tokens that begin and end a text where the file does not say so.
func (s *settings) specials() {
	if s.values["tokenizer.ggml.model"] != "gpt2" { // where 1 and 2 are characters
		s.assume(map[string]any{"bos_token_id": 1.0, "eos_token_id": 2.0})
	}
}

// vocabulary is the pieces of the embedded vocabulary, which are decoded once. They are normal ones where the file has no types.
func (s *settings) vocabulary() []tokenizer.Piece {
	const tokens, types = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
	if s.pieces != nil {
		return s.pieces
	}
	texts := ggufStrings(s, tokens, get[ggufList](s, tokens).n)
	s.pieces = make([]tokenizer.Piece, len(texts))
	for i, text := range texts {
		s.pieces[i] = tokenizer.Piece{Text: text, Kind: tokenizer.NormalPiece}
	}
	if s.values[types] != nil {
		for i, kind := range ggufFloats(s, types, len(texts)) {
			s.pieces[i].Kind = tokenizer.PieceKind(kind)
		}
	}
	for i, p := range s.pieces {
		if slices.Contains(endNames, p.Text) { // whatever type the file has for it
			s.pieces[i].Kind = tokenizer.ControlPiece
		}
	}
	return s.pieces
}

// ggufPieces is the vocabulary of a model with vocab tokens, to make a tokenizer of.
func ggufPieces(meta *settings, vocab int) []tokenizer.Piece {
	meta.only(map[string]any{"tokenizer.ggml.add_eos_token": 0.0})
	pieces := meta.vocabulary()
	meta.need(len(pieces) == vocab, "metadata tokenizer.ggml.tokens", "has %d values, need %d", len(pieces), vocab)
	return pieces
}

// ggufTokenizer reads the embedded SentencePiece vocabulary, in which ▁ is a space.
func ggufTokenizer(meta *settings, vocab int, bos uint32) (*tokenizer.Tokenizer, error) {
	if !get(meta, "tokenizer.ggml.add_bos_token", true) {
		bos = NoToken
	}
	pieces := slices.Clone(ggufPieces(meta, vocab))
	if meta.values["tokenizer.ggml.scores"] != nil {
		for i, score := range ggufFloats(meta, "tokenizer.ggml.scores", vocab) {
			pieces[i].Score = float32(score)
		}
	}
	strips := meta.isPhi3()
	for i, p := range pieces {
		pieces[i].Text = strings.ReplaceAll(p.Text, "▁", " ")
		pieces[i].Strip = strips && !slices.Contains([]string{"<unk>", "<s>", "<|endoftext|>"}, p.Text)
	}
	return tokenizer.SentencePiece(meta.name, pieces, bos, get(meta, "tokenizer.ggml.add_space_prefix", true))
}

// isPhi3 reports whether a SentencePiece vocabulary is that of Phi-3, whose control tokens take the white space after them. GGUF does not say that they do.
func (s *settings) isPhi3() bool {
	name := strings.ToLower(get(s, "general.name", ""))
	return s.arch == "phi3" || strings.Contains(name, "phi-3") || strings.Contains(name, "phi3")
}

// ggufByteLevel reads the embedded byte-level BPE vocabulary.
func ggufByteLevel(meta *settings, vocab int, bos uint32) (*tokenizer.Tokenizer, error) {
	var begin []uint32
	pre := meta.words()
	if get(meta, "tokenizer.ggml.add_bos_token", pre.Whole) && bos != NoToken {
		begin = []uint32{bos}
	}
	merges := get[ggufList](meta, "tokenizer.ggml.merges")
	return tokenizer.ByteLevel(meta.name, ggufPieces(meta, vocab), ggufStrings(meta, "tokenizer.ggml.merges", merges.n), pre, begin)
}

// words is how the embedded vocabulary divides texts into words, if it is one that does. One of which that is not known is refused.
func (s *settings) words() (pre tokenizer.PreTokenizer) {
	const remedy = "name the model's tokenizer.json with --tokenizer"
	switch kind := get(s, "tokenizer.ggml.model", ""); kind {
	case "gpt2":
		name := get(s, "tokenizer.ggml.pre", "default")
		known := false
		if pre, known = tokenizer.NamedPreTokenizer(name); !known {
			s.refuse(fmt.Sprintf("the pre-tokenizer %q of its vocabulary", name), remedy+"; of GGUF files it reads "+strings.Join(tokenizer.PreTokenizers(), ", "))
		}
	case "llama":
	default:
		s.refuse(fmt.Sprintf("a vocabulary of kind %q", kind), remedy+"; of GGUF files it reads llama and gpt2")
	}
	return pre
}

// endNames are the names of tokens that end a turn or a text, in the vocabularies that have them. As in llama.cpp these are control tokens.
var endNames = []string{"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "[EOT]"}

// ends adds what ends a turn or a text to what ends a text. Many files do not say it, so tokens count whose names are known for it.
func (s *settings) ends(c *Config) {
	for _, key := range []string{"tokenizer.ggml.eos_token_ids", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"} {
		c.EOS = append(c.EOS, s.tokens(key)...)
	}
	var messages []uint32 // the end of a message, after which a turn goes on, in the vocabulary of gpt-oss
	harmony := false
	if _, ok := s.values["tokenizer.ggml.tokens"].(ggufList); ok {
		pieces := s.vocabulary()
		for i, p := range pieces[:min(len(pieces), c.Vocab)] {
			if slices.Contains(endNames, p.Text) {
				c.EOS = append(c.EOS, uint32(i))
			}
			if harmony = harmony || p.Text == "<|return|>"; p.Text == "<|end|>" {
				messages = append(messages, uint32(i))
			}
		}
	}
	var all []uint32
	for _, token := range c.EOS {
		if !slices.Contains(all, token) && !(harmony && slices.Contains(messages, token)) {
			all = append(all, token)
		}
	}
	c.EOS = all
}
