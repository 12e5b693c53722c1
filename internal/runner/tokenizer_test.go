package runner

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/external"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func tinyTokenizer(t require.TestingT) *Tokenizer {
	pieces := []string{" a", "ab", "abc", "bc", " ", "a", "b", "c", "é", "<s>"}
	tok, err := parseTokenizer(file{"t", craftTokenizer(pieces...)}, 259+len(pieces))
	require.NoError(t, err)
	return tok
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
		require.Equal(t, text, decode(tok, 1, tok.Encode(text)[1:]))
	}
	require.Equal(t, []uint32{264, 259}, tok.EncodeMore("a a"), "no space is put before text that goes on")
	require.Empty(t, tok.EncodeMore(""))
	require.Equal(t, "", tok.Decode(5, 2), "EOS")
	require.Equal(t, "", tok.Decode(5, math.MaxUint32), "beyond the vocabulary")
	require.Equal(t, " a", tok.Decode(5, 259))
	require.Equal(t, "a", tok.Decode(1, 259), "the space after BOS is not part of the text")
	require.Equal(t, "\xe2", tok.Decode(1, 0xe2+3), "a part of a character is passed on")
}

// Whatever the text, decoding token by token gives it back.
func TestTokenizerLosesNothing(t *testing.T) {
	tok, bytewise := tinyTokenizer(t), newByteTokenizer(259, 256)
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(
			rapid.SampledFrom([]string{" ", "a", "b", "c", "é", "abc", "\xff", "\xe2\x82"}), rapid.String(),
		)).Draw(t, "text"), "")
		for _, tok := range []*Tokenizer{tok, bytewise} {
			tokens := tok.Encode(text)
			require.Equal(t, tok.bos, tokens[0])
			require.Equal(t, text, decode(tok, tok.bos, tokens[1:]))
			require.Equal(t, text+text, decode(tok, tok.bos, append(tokens[1:], tok.EncodeMore(text)...)))
		}
		require.Len(t, bytewise.Encode(text), len(text)+1)
	})
}

func TestTokenizerRefusals(t *testing.T) {
	for _, c := range []struct {
		why  string
		data []byte
	}{
		{"has a length of -1", join(u32(7), u32(0), u32(math.MaxUint32))},
		{"needs 2147483647 bytes", join(u32(7), u32(0), u32(math.MaxInt32))},
		{"is not a number", join(u32(7), u32(0x7fc00000), u32(0), make([]byte, 16))},
		{"BOS is token 1 of 1", join(u32(7), make([]byte, 8))},
		{"byte token 3", join(u32(7), make([]byte, 24), u32(0), u32(6), []byte("<0xZZ>"))},
		{"byte token 3", join(u32(7), make([]byte, 24), u32(0), u32(6), []byte("<0xab>"))},
	} {
		vocab := map[bool]int{true: 1, false: 3}[strings.HasPrefix(c.why, "BOS")]
		if strings.HasPrefix(c.why, "byte") {
			vocab = 4
		}
		_, err := parseTokenizer(file{"t.bin", c.data}, vocab)
		require.ErrorIs(t, err, ErrFile{})
		require.ErrorContains(t, err, c.why)
	}
}

func TestByteVocabulary(t *testing.T) {
	m, tok, _ := loadDemo(t)
	require.Equal(t, uint32(256), m.BOS)
	require.True(t, m.Stops(257))
	require.Equal(t, []uint32{256, 'H', 'i', 0xc3, 0xa9}, tok.Encode("Hié"))
	require.Equal(t, []uint32{256, ' '}, tok.Encode(" "))
	require.Equal(t, " ", tok.Decode(256, ' '), "no space is added, so none is taken away")
	require.Equal(t, "", tok.Decode(256, 257))
	require.False(t, isByteLevel(Config{Vocab: 512, BOS: 1}))
	require.False(t, isByteLevel(Config{Vocab: 128256, BOS: 128000}))
}

// The checkpoint's tokenizer file and the vocabulary inside the GGUF file are the
// same, and the published text is what their tokens say.
func TestStoriesTokenizers(t *testing.T) {
	m, a := loadStories(t, ".bin")
	_, b := loadStories(t, ".gguf")
	require.Equal(t, 512, m.Vocab)
	text, err := os.ReadFile(external.Path(t, "text", "tinystories_sample.txt"))
	require.NoError(t, err)
	for _, s := range append(strings.SplitAfter(string(text), "\n"), "", " ", "▁", "naïve café — “quoted” 日本 \x80", "Once upon a time") {
		tokens := a.Encode(s)
		require.Equal(t, tokens, b.Encode(s))
		require.Equal(t, s, decode(a, 1, tokens[1:]))
	}
	require.Equal(t, []uint32{1, 403, 407, 261, 378}, a.Encode("Once upon a time"))

	var tokens []uint32
	for _, s := range goldenStory(t).Steps[:200] {
		tokens = append(tokens, s.Next)
	}
	want, err := os.ReadFile(stories(t, "expected_greedy_n200.txt"))
	require.NoError(t, err)
	require.Equal(t, string(want), decode(a, 1, tokens))
}
