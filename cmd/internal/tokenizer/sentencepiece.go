package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Piece is a token of a vocabulary of SentencePiece or GGUF.
type Piece struct {
	Text  string // of SentencePiece, in which ▁ is a space here
	Score float32
	Kind  PieceKind
	Strip bool // takes the white space after it, where it is found in the text
}

// PieceKind is numbered as in SentencePiece and GGUF. Others stand for no text.
type PieceKind int

// What a piece is.
const (
	NormalPiece  PieceKind = 1
	ControlPiece PieceKind = 3
	UserPiece    PieceKind = 4 // is found in the text before pieces are merged, whatever merging makes
	BytePiece    PieceKind = 6 // <0x0A>: a byte, for text that no other piece covers
)

// Bytes is a vocabulary of bytes: byte b is token b. The tokens after the bytes, up to vocab, stand for no text.
func Bytes(vocab int, bos uint32) *Tokenizer {
	t := &Tokenizer{begin: []uint32{bos}, pieces: make([]string, vocab), lead: strings.Clone, model: bpe{bytes: map[byte]int{}}}
	for _, b := range byteNames {
		t.model.bytes[b[0]], t.pieces[b[0]] = int(b[0]), b
	}
	return t
}

// SentencePiece indexes a vocabulary. With spaced a text begins with a space that
// decoding takes away again. bos is the token that it begins with; math.MaxUint32: none. name is only that of the file in errors.
func SentencePiece(name string, pieces []Piece, bos uint32, spaced bool) (*Tokenizer, error) {
	f, begin := file(name), []uint32{bos}
	if bos == math.MaxUint32 {
		begin = nil
	}
	t := &Tokenizer{begin: begin, pieces: make([]string, len(pieces)), lead: func(piece string) string { return strings.TrimPrefix(piece, " ") },
		model: bpe{vocab: map[string]uint32{}, scores: make([]float32, len(pieces)), bytes: map[byte]int{}}, names: map[uint32]string{}}
	m := &t.model
	if begin != nil && uint64(bos) >= uint64(len(pieces)) {
		return nil, f.bad("vocabulary", "BOS is token %d of %d", bos, len(pieces))
	}
	var users, control []addedToken
	for i, p := range pieces {
		if p.Score != p.Score {
			return nil, f.bad("vocabulary", "the score of token %d is not a number", i)
		}
		m.scores[i] = p.Score
		switch p.Kind {
		case ControlPiece:
			control = append(control, addedToken{ID: uint32(i), find: p.Text, RStrip: p.Strip})
			t.names[uint32(i)] = p.Text
		case NormalPiece, UserPiece:
			t.pieces[i] = p.Text
			if _, twice := m.vocab[p.Text]; !twice { // of equal pieces the first counts
				m.vocab[p.Text] = uint32(i)
				if p.Kind == UserPiece {
					users = append(users, addedToken{ID: uint32(i), find: p.Text, RStrip: p.Strip})
				}
			}
		case BytePiece:
			b, ok := byteNames[p.Text]
			if !ok {
				return nil, f.bad("vocabulary", "byte token %d is %q, need the form <0x0A>", i, p.Text)
			}
			m.bytes[b[0]], t.pieces[i] = i, b
		}
	}
	t.spoken = cutter(slices.Concat(users, control))
	t.steps = []step{cutter(users)}
	if spaced {
		t.steps = append(t.steps, edit(func(s *span) { s.prefix(" ", true) }))
	} else {
		t.lead = strings.Clone
	}
	return t, nil
}

// readLlama2c reads llama2.c's tokenizer file: the length of the longest token (i32), and for each token its score (f32),
// length (i32) and text. Tokens 0 to 2 are unknown, BOS and EOS.
func readLlama2c(name string, data []byte, vocab int) (*Tokenizer, error) {
	const bos, eos, head = 1, 2, 8
	f, rest := file(name), data[min(4, len(data)):]
	var pieces []Piece
	for i := 0; i < vocab && len(rest) >= head; i++ {
		score, n := binary.LittleEndian.Uint32(rest), int(int32(binary.LittleEndian.Uint32(rest[4:])))
		if rest = rest[head:]; n < 0 || n > len(rest) {
			return nil, f.bad(fmt.Sprintf("token %d", i), "has a length of %d where the file has %d bytes left", n, len(rest))
		}
		p := Piece{Text: string(rest[:n]), Score: math.Float32frombits(score), Kind: NormalPiece}
		switch {
		case i <= eos:
			p.Kind = ControlPiece
		case n == 6 && strings.HasPrefix(p.Text, "<0x") && p.Text[5] == '>':
			p.Kind = BytePiece
		}
		pieces, rest = append(pieces, p), rest[n:]
	}
	if len(pieces) < vocab || len(rest) != 0 {
		return nil, f.bad("size", "%d bytes, %d of them after the %d tokens that it has, need %d tokens", len(data), len(rest), len(pieces), vocab)
	}
	return SentencePiece(name, pieces, bos, true)
}
