package tokenizer

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func u32(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }

func concat(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// craftLlama2c is a llama2.c tokenizer file with all bytes and a few merges.
func craftLlama2c(pieces ...string) []byte {
	all := []string{"<unk>", "\n<s>\n", "\n</s>\n"}
	for b := range 256 {
		all = append(all, fmt.Sprintf("<0x%02X>", b))
	}
	out := u32(7)
	for i, p := range append(all, pieces...) {
		out = concat(out, u32(math.Float32bits(float32(-i))), u32(uint32(len(p))), []byte(p))
	}
	return out
}

func tinyTokenizer(t require.TestingT) *Tokenizer {
	pieces := []string{" a", "ab", "abc", "bc", " ", "a", "b", "c", "é", "<s>"}
	tok, err := Read("t", craftLlama2c(pieces...), 259+len(pieces))
	require.NoError(t, err)
	return tok
}

func TestCutLlama2c(t *testing.T) {
	vocabulary := craftLlama2c("a", "ab")
	for n := 0; n < len(vocabulary); n += 5 {
		_, err := Read("t", vocabulary[:n], 261)
		require.ErrorIs(t, err, modelfile.ErrFile{}, "cut to %d bytes", n)
	}
}

// A character is printed when it is complete.
func TestDecoderHoldsPartsOfCharacters(t *testing.T) {
	tok := Bytes(258, 256)
	for text, want := range map[string][]string{
		"aé":               {"a", "", "é"},
		"€x":               {"", "", "€", "x"},
		"\xf0\x9f\x99\x82": {"", "", "", "🙂"},
		"\xffa":            {"\ufffd", "a"},
		"\xe2\x82a":        {"", "", "\ufffd\ufffda"},
		"\xe2\xe2\x82\xac": {"", "\ufffd", "", "€"},
		"\x80\x80":         {"\ufffd", "\ufffd"},
		"\xe0\x80":         {"", "\ufffd\ufffd"},
	} {
		d := tok.Decoder(256)
		for i, s := range want {
			require.Equal(t, s, d.Add(uint32(text[i])), "%q at %d", text, i)
		}
		require.Empty(t, d.Rest())
	}
	d := tok.Decoder(256)
	require.Empty(t, d.Add(0xe2)+d.Add(0x82)+d.Add(257))
	require.Equal(t, "\ufffd\ufffd", d.Rest())
	require.Empty(t, d.Rest())
}

func TestTokenizerMerges(t *testing.T) {
	tok := tinyTokenizer(t)
	for text, want := range map[string][]uint32{
		"":      {1},
		"abc":   {1, 259, 262},                          // " a" is better than "ab", then "bc"
		"babc":  {1, 263, 265, 261},                     // "ab", then "abc"
		"é\n":   {1, 263, 267, 13},                      // a byte is its value plus 3
		"€":     {1, 263, 0xe2 + 3, 0x82 + 3, 0xac + 3}, // a character without a token
		"\xff":  {1, 263, 0xff + 3},                     // no character at all
		"<s>":   {1, 263, '<' + 3, 's' + 3, '>' + 3},    // text cannot name a special token: merging does not get there
		"▁":     {1, 263, 0xe2 + 3, 0x96 + 3, 0x81 + 3},
		"  a":   {1, 263, 263, 259},
		"aaaab": {1, 259, 264, 264, 260},
	} {
		require.Equal(t, want, tok.Encode(text), "%q", text)
		require.Equal(t, " "+text, " "+strings.TrimPrefix(raw(tok, tok.Encode(text)), " "))
		require.Equal(t, strings.ToValidUTF8(text, "\ufffd"), decode(tok, tok.Encode(text)))
	}
	require.Equal(t, []uint32{264, 259}, tok.EncodeMore("a a"), "no space is put before text that goes on")
	require.Empty(t, tok.EncodeMore(""))
	require.Equal(t, "", tok.Piece(2), "EOS")
	require.Equal(t, "", tok.Piece(math.MaxUint32), "beyond the vocabulary")
	require.Equal(t, " a", tok.Piece(259))
	require.Equal(t, " a", tok.Decoder(5).Add(259))
	require.Equal(t, "a", tok.Decoder(1).Add(259), "the space after BOS is not part of the text")
}

// Pieces that users defined are found where no merge gets, the longest first, and text after them begins as any does.
func TestUserPieces(t *testing.T) {
	tok, err := SentencePiece("t", []Piece{{"<s>", 0, ControlPiece, false}, {" ", 0, NormalPiece, false}, {"a", 0, NormalPiece, false}, {" a", 1, NormalPiece, false},
		{"<|im|>", 0, UserPiece, false}, {"<|im|>a", 0, UserPiece, false}, {"", 0, UserPiece, false}, {"aa", 2, NormalPiece, false}, {"aaa", 0, UserPiece, false}}, 0, true)
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 3, 4, 1, 3, 4}, tok.Encode("a<|im|> a<|im|>"))
	require.Equal(t, []uint32{0, 5, 8}, tok.Encode("<|im|>aaaa"))
	require.Equal(t, []uint32{4}, tok.EncodeMore("<|im|>"))
	require.Equal(t, "a<|im|>", decode(tok, tok.Encode("a<|im|>")))
}

// Whatever the text, decoding token by token gives it back.
func TestTokenizerLosesNothing(t *testing.T) {
	tok, bytewise := tinyTokenizer(t), Bytes(259, 256)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(
			rapid.SampledFrom([]string{" ", "a", "b", "c", "é", "abc", "\xff", "\xe2\x82"}), rapid.String(),
		)).Draw(t, "text"), "")
		for _, tok := range []*Tokenizer{tok, bytewise} {
			tokens := tok.Encode(text)
			require.Equal(t, tok.begin[0], tokens[0])
			require.Equal(t, text, raw(tok, tok.EncodeMore(text)))
			require.Equal(t, string([]rune(text)), decode(tok, tokens))
		}
		require.Len(t, bytewise.Encode(text), len(text)+1)
	})
}

func TestTokenizerRefusals(t *testing.T) {
	for _, c := range []struct {
		why  string
		data []byte
	}{
		{"has a length of -1 where", concat(u32(7), u32(0), u32(math.MaxUint32))},
		{"has a length of 2147483647 where", concat(u32(7), u32(0), u32(math.MaxInt32))},
		{"is not a number", concat(u32(7), u32(0x7fc00000), u32(0), make([]byte, 16))},
		{"BOS is token 1 of 1", concat(u32(7), make([]byte, 8))},
		{"byte token 3", concat(u32(7), make([]byte, 24), u32(0), u32(6), []byte("<0xZZ>"))},
		{"byte token 3", concat(u32(7), make([]byte, 24), u32(0), u32(6), []byte("<0xab>"))},
	} {
		vocab := map[bool]int{true: 1, false: 3}[strings.HasPrefix(c.why, "BOS")]
		if strings.HasPrefix(c.why, "byte") {
			vocab = 4
		}
		_, err := Read("t.bin", c.data, vocab)
		require.ErrorIs(t, err, modelfile.ErrFile{})
		require.ErrorContains(t, err, c.why)
	}
}

// Control tokens are text, but in what a chat template made.
func TestSpoken(t *testing.T) {
	pieces := []Piece{{Text: "<unk>", Kind: 2}, {Text: "<s>", Kind: ControlPiece}, {Text: "<|end|>", Kind: ControlPiece}, {Text: "", Kind: ControlPiece},
		{Text: "<|user|>", Kind: UserPiece}, {Text: " ", Kind: NormalPiece}, {Text: "a", Kind: NormalPiece}}
	for _, c := range "<|end>s" {
		pieces = append(pieces, Piece{Text: string(c), Kind: NormalPiece})
	}
	tok, err := SentencePiece("x.gguf", pieces, 1, false)
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 4, 6, 2, 6}, tok.Spoken().Encode("<|user|>a<|end|>a"))
	require.Len(t, tok.Encode("<|user|>a<|end|>a"), 1+1+1+7+1)
	require.Equal(t, []uint32{2, 4}, tok.Spoken().EncodeMore("<|end|><|user|>"))
	require.Equal(t, []string{"", "<|end|>", "", ""}, []string{tok.Control(0), tok.Spoken().Control(2), tok.Control(4), tok.Control(99)})
	pieces = normalPieces(byteTokens("<|end|>", "<think>", "ab"))
	pieces[256].Kind, pieces[257].Kind = ControlPiece, UserPiece
	tok, err = ByteLevel("x.gguf", pieces, []string{"a b"}, PreTokenizer{}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"<|end|>", "", ""}, []string{tok.Control(256), tok.Control(257), tok.Control(258)})
	require.Equal(t, []string{"", "<think>"}, []string{tok.Piece(256), tok.Piece(257)})
}

// Some tokens take the white space after them; text that follows begins as any does.
func TestPiecesThatStrip(t *testing.T) {
	pieces := []Piece{{Text: "<s>", Kind: ControlPiece}, {Text: "<|user|>", Kind: ControlPiece}, {Text: "<|end|>", Kind: ControlPiece}, {Text: "</s>", Kind: UserPiece},
		{Text: "\n", Kind: NormalPiece}, {Text: " ", Kind: NormalPiece}, {Text: "a", Kind: NormalPiece}, {Text: " a", Score: 1, Kind: NormalPiece}}
	const text = "<|user|>\n a<|end|>\n</s> \na</s>"
	tok, err := SentencePiece("x.gguf", pieces, 0, true)
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 1, 5, 4, 7, 2, 5, 4, 3, 5, 5, 4, 6, 3}, tok.Spoken().Encode(text))
	pieces[1].Strip, pieces[2].Strip, pieces[3].Strip = true, true, true
	tok, err = SentencePiece("x.gguf", pieces, 0, true)
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 1, 7, 2, 3, 7, 3}, tok.Spoken().Encode(text))
	require.Equal(t, []uint32{0, 7, 3, 7}, tok.Encode("a</s>\n\na"))
}
