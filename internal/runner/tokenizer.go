package runner

import (
	"fmt"
	"slices"
	"strings"
)

// Tokenizer turns text into tokens and tokens into text: a vocabulary of pieces
// of which neighbours are merged, the best score first, as SentencePiece's BPE
// does. A byte-level vocabulary is one in which nothing merges. It is not changed
// by use and safe for concurrent use.
type Tokenizer struct {
	bos    uint32
	spaced bool // a text begins with a space, which decoding takes away again
	pieces []piece
	ids    map[string]uint32 // of pieces that are made by merging
	bytes  [256]uint32       // the token of each byte; token 0, unknown, where there is none
}

type piece struct {
	text  string
	score float32
	kind  pieceKind
}

// pieceKind is numbered as in SentencePiece and GGUF. Others stand for no text.
type pieceKind int

const (
	normalPiece  pieceKind = 1
	controlPiece pieceKind = 3
	userPiece    pieceKind = 4
	bytePiece    pieceKind = 6 // <0x0A>: a byte, for text that no other piece covers
)

// newTokenizer indexes a SentencePiece vocabulary. f is only named in errors.
func newTokenizer(f file, pieces []piece, bos uint32) (*Tokenizer, error) {
	t := &Tokenizer{bos: bos, spaced: true, pieces: pieces, ids: make(map[string]uint32, len(pieces))}
	if uint64(bos) >= uint64(len(pieces)) {
		return nil, f.bad("vocabulary", "BOS is token %d of %d", bos, len(pieces))
	}
	for i := range pieces {
		p := &pieces[i]
		if p.score != p.score {
			return nil, f.bad("vocabulary", "the score of token %d is not a number", i)
		}
		switch p.kind {
		case normalPiece, userPiece:
			if _, twice := t.ids[p.text]; !twice { // of equal pieces the first counts
				t.ids[p.text] = uint32(i)
			}
		case bytePiece:
			var b byte
			if _, err := fmt.Sscanf(p.text, "<0x%02X>", &b); err != nil || p.text != fmt.Sprintf("<0x%02X>", b) {
				return nil, f.bad("vocabulary", "byte token %d is %q, need the form <0x0A>", i, p.text)
			}
			t.bytes[b], p.text = uint32(i), string([]byte{b})
		default:
			p.text = ""
		}
	}
	return t, nil
}

// newByteTokenizer is the vocabulary in which byte b is token b. The tokens
// behind the bytes, up to vocab, stand for no text.
func newByteTokenizer(vocab int, bos uint32) *Tokenizer {
	t := &Tokenizer{bos: bos, pieces: make([]piece, vocab)}
	for i := range t.bytes {
		t.bytes[i], t.pieces[i].text = uint32(i), string([]byte{byte(i)})
	}
	return t
}

// isByteLevel recognises a vocabulary of bytes by its size, with the special
// tokens right behind them: such a model needs no tokenizer file.
func isByteLevel(c Config) bool {
	const special = 16 // tokens behind the bytes, at most
	return c.BOS >= 256 && c.BOS != NoToken && c.Vocab <= 256+special
}

// parseTokenizer reads llama2.c's tokenizer file for a vocabulary of vocab
// tokens: the length of the longest (i32), and for each its score (f32), length
// (i32) and text. Tokens 0 to 2 are unknown, BOS and EOS.
func parseTokenizer(f file, vocab int) (*Tokenizer, error) {
	const bos, eos = 1, 2
	r := reader{file: f}
	r.u32("longest token")
	var pieces []piece
	for i := 0; i < vocab && r.err == nil; i++ {
		field := fmt.Sprintf("token %d", i)
		p := piece{score: r.f32(field), kind: normalPiece}
		n := int32(r.u32(field))
		if n < 0 {
			r.fail(field, "has a length of %d", n)
		}
		p.text = string(r.bytes(field, uint64(n)))
		switch {
		case i <= eos:
			p.kind = controlPiece
		case len(p.text) == 6 && strings.HasPrefix(p.text, "<0x") && p.text[5] == '>':
			p.kind = bytePiece
		}
		pieces = append(pieces, p)
	}
	if r.left() != 0 {
		r.fail("size", "%d bytes follow the %d tokens of the model's vocabulary", r.left(), vocab)
	}
	if r.err != nil {
		return nil, r.err
	}
	return newTokenizer(f, pieces, bos)
}

// Encode gives the tokens of text, BOS first.
func (t *Tokenizer) Encode(text string) []uint32 {
	if t.spaced && text != "" {
		text = " " + text
	}
	return append([]uint32{t.bos}, t.EncodeMore(text)...)
}

// EncodeMore gives the tokens of text that goes on from other text. What the
// vocabulary does not have, also invalid UTF-8, is encoded byte by byte, so nothing
// is lost.
//
// Starting from characters, the pair of neighbours with the best score, of equal
// ones the first, becomes one symbol until no pair is a token. The time is the
// square of the length, which prompts that fit a model's context can afford.
func (t *Tokenizer) EncodeMore(text string) (tokens []uint32) {
	var begin []int // of each symbol, and the end of the text
	for at := range text {
		begin = append(begin, at)
	}
	begin = append(begin, len(text))
	for best := 0; best >= 0; {
		best = -1
		var top float32
		for i := range max(len(begin)-2, 0) {
			if id, ok := t.ids[text[begin[i]:begin[i+2]]]; ok && (best < 0 || t.pieces[id].score > top) {
				best, top = i, t.pieces[id].score
			}
		}
		if best >= 0 {
			begin = slices.Delete(begin, best+1, best+2)
		}
	}
	for i, end := range begin[1:] {
		symbol := text[begin[i]:end]
		if id, ok := t.ids[symbol]; ok {
			tokens = append(tokens, id)
			continue
		}
		for _, b := range []byte(symbol) {
			tokens = append(tokens, t.bytes[b])
		}
	}
	return tokens
}

// Decode is the text of token after prev (BOS at the beginning of a text): a
// part of a character where the vocabulary has it in bytes, nothing for a token
// that stands for no text or is not in the vocabulary.
func (t *Tokenizer) Decode(prev, token uint32) string {
	if uint64(token) >= uint64(len(t.pieces)) {
		return ""
	}
	text := t.pieces[token].text
	if t.spaced && prev == t.bos {
		text = strings.TrimPrefix(text, " ")
	}
	return text
}
