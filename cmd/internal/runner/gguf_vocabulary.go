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

// ggufTokenizer reads the embedded SentencePiece vocabulary, in which ▁ is a space.
func ggufTokenizer(meta *settings, vocab int, bos uint32) (*tokenizer.Tokenizer, error) {
	meta.only(map[string]any{"tokenizer.ggml.add_eos_token": 0.0})
	if !get(meta, "tokenizer.ggml.add_bos_token", true) {
		bos = NoToken
	}
	texts := ggufStrings(meta, "tokenizer.ggml.tokens", vocab)
	scores := ggufFloats(meta, "tokenizer.ggml.scores", vocab)
	kinds := ggufFloats(meta, "tokenizer.ggml.token_type", vocab)
	pieces := make([]tokenizer.Piece, vocab)
	for i, text := range texts {
		pieces[i] = tokenizer.Piece{Text: strings.ReplaceAll(text, "▁", " "), Score: float32(scores[i]), Kind: tokenizer.PieceKind(kinds[i])}
	}
	return tokenizer.SentencePiece(meta.name, pieces, bos, get(meta, "tokenizer.ggml.add_space_prefix", true))
}

// ggufByteLevel reads the embedded byte-level BPE vocabulary.
func ggufByteLevel(meta *settings, vocab int, bos uint32) (*tokenizer.Tokenizer, error) {
	meta.only(map[string]any{"tokenizer.ggml.add_eos_token": 0.0})
	kinds := make([]tokenizer.PieceKind, vocab)
	for i, kind := range ggufFloats(meta, "tokenizer.ggml.token_type", vocab) {
		kinds[i] = tokenizer.PieceKind(kind)
	}
	var begin []uint32
	pre := meta.words()
	if get(meta, "tokenizer.ggml.add_bos_token", pre.Whole) && bos != NoToken {
		begin = []uint32{bos}
	}
	merges := get[ggufList](meta, "tokenizer.ggml.merges")
	return tokenizer.ByteLevel(meta.name, ggufStrings(meta, "tokenizer.ggml.tokens", vocab), ggufStrings(meta, "tokenizer.ggml.merges", merges.n), kinds, pre, begin)
}

// words is how the embedded vocabulary divides texts into words, if it is one that does. What it is not read of is refused.
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

// ends adds what ends a turn or a text to what ends a text. Many files do not say it, so tokens count whose names are known for it.
func (s *settings) ends(c *Config) {
	add := func(token uint32) {
		if !slices.Contains(c.EOS, token) {
			c.EOS = append(c.EOS, token)
		}
	}
	for _, key := range []string{"tokenizer.ggml.eos_token_ids", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"} {
		for _, token := range s.tokens(key) {
			add(token)
		}
	}
	const tokens, kinds = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
	if _, ok := s.values[tokens].(ggufList); !ok || s.values[kinds] == nil {
		return
	}
	n := get[ggufList](s, tokens).n
	found := map[string]uint32{}
	texts := ggufStrings(s, tokens, n)
	for i, kind := range ggufFloats(s, kinds, n) {
		if kind := tokenizer.PieceKind(kind); kind == tokenizer.ControlPiece || kind == tokenizer.UserPiece {
			found[texts[i]] = uint32(i)
		}
	}
	_, harmony := found["<|return|>"] // in which <|end|> ends but a message
	for _, name := range []string{"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "[EOT]"} {
		if token, there := found[name]; there && int(token) < c.Vocab && !(harmony && name == "<|end|>") {
			add(token)
		}
	}
}
