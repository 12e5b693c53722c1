package llama

import (
	"fmt"
	"strconv"
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
	ids    map[string]uint32 // of normal pieces
	bytes  [256]uint32       // the token of each byte; token 0, unknown, where there is none
}

type piece struct {
	text  string
	score float32
	kind  pieceKind
}

type pieceKind uint8

const (
	normalPiece  pieceKind = iota
	bytePiece              // <0x0A>: a byte, for text that no other piece covers
	controlPiece           // stands for no text
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
		if p.kind == bytePiece {
			b, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimPrefix(p.text, "<0x"), ">"), 16, 8)
			if err != nil || p.text != fmt.Sprintf("<0x%02X>", b) {
				return nil, f.bad("vocabulary", "byte token %d is %q, need the form <0x0A>", i, p.text)
			}
			t.bytes[b] = uint32(i)
			p.text = string([]byte{byte(b)})
			continue
		}
		// Of equal pieces the first counts.
		if _, twice := t.ids[p.text]; !twice && p.kind == normalPiece && p.text != "" {
			t.ids[p.text] = uint32(i)
		}
	}
	return t, nil
}

// newByteTokenizer is the vocabulary in which byte b is token b. The tokens
// behind the bytes, up to vocab, are control tokens.
func newByteTokenizer(vocab int, bos uint32) *Tokenizer {
	t := &Tokenizer{bos: bos, pieces: make([]piece, vocab)}
	for i := range t.pieces {
		t.pieces[i].kind = controlPiece
		if i < len(t.bytes) {
			t.bytes[i] = uint32(i)
			t.pieces[i] = piece{text: string([]byte{byte(i)}), kind: bytePiece}
		}
	}
	return t
}

// isByteLevel recognises a vocabulary of bytes by its size, with the special
// tokens right behind them: such a model needs no tokenizer file.
func isByteLevel(c Config) bool {
	const special = 16 // tokens behind the bytes, at most
	return c.BOS >= 256 && c.Vocab <= 256+special
}

// parseTokenizer reads llama2.c's tokenizer file for a vocabulary of vocab
// tokens: the length of the longest (i32), and for each its score (f32), length
// (i32) and text. Tokens 0 to 2 are unknown, BOS and EOS.
func parseTokenizer(f file, vocab int) (*Tokenizer, error) {
	const bos, eos = 1, 2
	c := cursor{file: f}
	c.u32("longest token")
	var pieces []piece
	for i := 0; i < vocab && c.err == nil; i++ {
		field := fmt.Sprintf("token %d", i)
		p := piece{score: c.f32(field)}
		n := int32(c.u32(field))
		if n < 0 {
			c.fail(field, "has a length of %d", n)
			break
		}
		p.text = string(c.bytes(field, uint64(n)))
		switch {
		case i <= eos:
			p.kind = controlPiece
		case len(p.text) == 6 && strings.HasPrefix(p.text, "<0x") && p.text[5] == '>':
			p.kind = bytePiece
		}
		pieces = append(pieces, p)
	}
	if c.err == nil && c.left() != 0 {
		c.fail("size", "%d bytes follow the %d tokens of the model's vocabulary", c.left(), vocab)
	}
	if c.err != nil {
		return nil, c.err
	}
	return newTokenizer(f, pieces, bos)
}

// Encode gives the tokens of text, BOS first. Text that the vocabulary does not
// have, also invalid UTF-8, is encoded byte by byte, so nothing is lost.
func (t *Tokenizer) Encode(text string) []uint32 {
	tokens := []uint32{t.bos}
	if text == "" {
		return tokens
	}
	if t.spaced {
		text = " " + text
	}
	return t.merge(text, tokens)
}

// Decode is the text of token after prev (BOS at the beginning of a text): a
// part of a character where the vocabulary has it in bytes, nothing for a token
// that stands for no text or is not in the vocabulary.
func (t *Tokenizer) Decode(prev, token uint32) string {
	if uint64(token) >= uint64(len(t.pieces)) || t.pieces[token].kind == controlPiece {
		return ""
	}
	text := t.pieces[token].text
	if t.spaced && prev == t.bos {
		text = strings.TrimPrefix(text, " ")
	}
	return text
}
