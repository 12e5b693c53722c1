package tokenizer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Piece is a token of a SentencePiece vocabulary.
type Piece struct {
	Text  string // ▁ is a space here
	Score float32
	Kind  PieceKind
}

// PieceKind is numbered as in SentencePiece and GGUF. Others stand for no text.
type PieceKind int

// What a piece is.
const (
	NormalPiece  PieceKind = 1
	ControlPiece PieceKind = 3
	UserPiece    PieceKind = 4
	BytePiece    PieceKind = 6 // <0x0A>: a byte, for text that no other piece covers
)

// sentencePiece merges neighbours whose text is a piece, the best score first, as SentencePiece's BPE does.
type sentencePiece struct {
	ids    map[string]uint32 // of pieces that are made by merging
	scores []float32
	bytes  [256]uint32 // the token of each byte; token 0, unknown, where there is none
	prefix string      // of a text
}

// Bytes is a vocabulary of bytes: byte b is token b. The tokens behind the bytes, up to vocab, stand for no text.
func Bytes(vocab int, bos uint32) *Tokenizer {
	m := &sentencePiece{scores: make([]float32, 1)}
	t := &Tokenizer{begin: []uint32{bos}, pieces: make([]string, vocab), lead: strings.Clone, coder: m}
	for b := range m.bytes {
		m.bytes[b], t.pieces[b] = uint32(b), string([]byte{byte(b)})
	}
	return t
}

// SentencePiece indexes a vocabulary, in which a text begins with a space that
// decoding takes away again. name is only that of the file in errors.
func SentencePiece(name string, pieces []Piece, bos uint32) (*Tokenizer, error) {
	f := file(name)
	m := &sentencePiece{ids: make(map[string]uint32, len(pieces)), scores: make([]float32, len(pieces)), prefix: " "}
	t := &Tokenizer{begin: []uint32{bos}, pieces: make([]string, len(pieces)), lead: func(piece string) string { return strings.TrimPrefix(piece, " ") }, coder: m}
	if uint64(bos) >= uint64(len(pieces)) {
		return nil, f.bad("vocabulary", "BOS is token %d of %d", bos, len(pieces))
	}
	for i, p := range pieces {
		if p.Score != p.Score {
			return nil, f.bad("vocabulary", "the score of token %d is not a number", i)
		}
		m.scores[i] = p.Score
		switch p.Kind {
		case NormalPiece, UserPiece:
			t.pieces[i] = p.Text
			if _, twice := m.ids[p.Text]; !twice { // of equal pieces the first counts
				m.ids[p.Text] = uint32(i)
			}
		case BytePiece:
			b, ok := byteNames[p.Text]
			if !ok {
				return nil, f.bad("vocabulary", "byte token %d is %q, need the form <0x0A>", i, p.Text)
			}
			m.bytes[b[0]], t.pieces[i] = uint32(i), b
		}
	}
	return t, nil
}

// What the vocabulary does not have, also invalid UTF-8, is encoded byte by byte, so nothing is lost.
func (m *sentencePiece) encode(text string, begins bool) (tokens []uint32) {
	if begins && text != "" {
		text = m.prefix + text
	}
	var symbols []symbol
	for at, end := 0, 0; at < len(text); at = end { // characters, and bytes of none
		_, size := utf8.DecodeRuneInString(text[at:])
		end = at + size
		symbols = append(symbols, symbol{at, end, -1})
	}
	for _, s := range merge(symbols, func(l, r symbol) (int, float64, bool) {
		id, ok := m.ids[text[l.begin:r.end]]
		return int(id), -float64(m.scores[id]), ok
	}) {
		part := text[s.begin:s.end]
		if id, ok := m.ids[part]; ok {
			tokens = append(tokens, id)
			continue
		}
		for i := range len(part) {
			tokens = append(tokens, m.bytes[part[i]])
		}
	}
	return tokens
}

// readLlama2c reads llama2.c's tokenizer file: the length of the longest token (i32), and for each token its score (f32),
// length (i32) and text. Tokens 0 to 2 are unknown, BOS and EOS.
func readLlama2c(name string, data []byte, vocab int) (*Tokenizer, error) {
	const bos, eos = 1, 2
	f, r := file(name), bytes.NewReader(data)
	var longest int32
	err := binary.Read(r, binary.LittleEndian, &longest)
	var pieces []Piece
	for i := 0; i < vocab && err == nil; i++ {
		var head struct {
			Score  float32
			Length int32
		}
		if err = binary.Read(r, binary.LittleEndian, &head); err != nil || head.Length < 0 || int(head.Length) > r.Len() {
			return nil, f.bad(fmt.Sprintf("token %d", i), "has a length of %d where the file has %d bytes left", head.Length, r.Len())
		}
		end := len(data) - r.Len() + int(head.Length)
		p := Piece{Text: string(data[len(data)-r.Len() : end]), Score: head.Score, Kind: NormalPiece}
		switch {
		case i <= eos:
			p.Kind = ControlPiece
		case len(p.Text) == 6 && strings.HasPrefix(p.Text, "<0x") && p.Text[5] == '>':
			p.Kind = BytePiece
		}
		pieces = append(pieces, p)
		r.Reset(data[end:])
	}
	if err != nil || r.Len() != 0 {
		return nil, f.bad("size", "%d bytes, %d of them behind the %d tokens of the model's vocabulary", len(data), r.Len(), vocab)
	}
	return SentencePiece(name, pieces, bos)
}
