package runner

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/stretchr/testify/require"
)

// decode is the text of tokens from its beginning.
func decode(tok *tokenizer.Tokenizer, tokens []uint32) string {
	var text strings.Builder
	d := tok.Decoder()
	for _, token := range tokens {
		text.WriteString(d.Add(token))
	}
	return text.String() + d.Rest()
}

func TestByteVocabulary(t *testing.T) {
	m, tok, _ := loadDemo(t)
	require.Equal(t, uint32(256), m.BOS)
	require.True(t, m.Stops(257))
	require.Equal(t, []uint32{256, 'H', 'i', 0xc3, 0xa9}, tok.Encode("Hié"))
	require.Equal(t, []uint32{256, ' '}, tok.Encode(" "))
	require.Equal(t, " ", tok.Decoder(256).Add(' '), "no space is added, so none is taken away")
	require.Equal(t, "", tok.Piece(257))
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
		require.Equal(t, strings.ToValidUTF8(s, "\uFFFD"), decode(a, tokens))
	}
	require.Equal(t, []uint32{1, 403, 407, 261, 378}, a.Encode("Once upon a time"))

	var tokens []uint32
	for _, s := range goldenStory(t).Steps[:200] {
		tokens = append(tokens, s.Next)
	}
	want, err := os.ReadFile(stories(t, "expected_greedy_n200.txt"))
	require.NoError(t, err)
	require.Equal(t, string(want), decode(a, tokens))
}

// A tokenizer alone is that of the model, and no weight is looked at for it.
func TestLoadTokenizer(t *testing.T) {
	write := func(broken bool) string {
		c := craftConfig(32)
		arrays := craftArrays(c, ggufWeights)
		if broken {
			arrays[1].data[2] = float32(math.Inf(1))
		}
		name := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, os.WriteFile(name, craftGGUF(craftMeta(c), arrays, "F32"), 0o600))
		return name
	}
	m, tok, err := Load(write(false), "", nil)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	broken := write(true)
	_, _, err = Load(broken, "", nil)
	require.ErrorIs(t, err, ErrFile{})
	alone, err := LoadTokenizer(broken, "")
	require.NoError(t, err)
	require.Equal(t, tok.Encode("a\na"), alone.Encode("a\na"))
	_, err = LoadTokenizer(filepath.Join(t.TempDir(), "absent.gguf"), "")
	require.ErrorIs(t, err, os.ErrNotExist)
}
