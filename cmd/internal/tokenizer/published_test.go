package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/stretchr/testify/require"
)

// Published files give the tokens and the texts that the file expected.json beside each
// says (docs/test-data.md), or lose nothing where there is none.
func TestPublishedTokenizers(t *testing.T) {
	compare(t, external.Path(t, "tokenizers"), 1<<20)
}

// Small files, made for what families differ in, give the tokens and the texts that Hugging Face's library gives:
// scripts/write-expected-tokens.js.
func TestAsHuggingFace(t *testing.T) {
	compare(t, "testdata", vocabSize)
	expected, err := filepath.Glob(filepath.Join("testdata", "*", "expected.json"))
	require.NoError(t, err)
	require.Len(t, expected, 5, "one beside each")
}

// compare holds the tokenizers in folders of a folder to what is expected of them.
func compare(t *testing.T, folder string, vocab int) {
	files, err := filepath.Glob(filepath.Join(folder, "*", "tokenizer.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(filepath.Base(filepath.Dir(name)), func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			tok, err := Read(name, data, vocab)
			require.NoError(t, err)
			data, err = os.ReadFile(filepath.Join(filepath.Dir(name), "expected.json"))
			if os.IsNotExist(err) {
				text := "The quick brown fox: 12345,\n\t naïve 日本語 🙂"
				require.Equal(t, text, decode(tok, tok.Encode(text)))
				return
			}
			require.NoError(t, err)
			var cases []struct {
				Text, Decoded string
				IDs           []uint32
			}
			require.NoError(t, json.Unmarshal(data, &cases))
			require.NotEmpty(t, cases)
			for _, c := range cases {
				got := append([]uint32{}, tok.Encode(c.Text)...)
				require.Equal(t, c.IDs, got, "%q", c.Text)
				require.Equal(t, c.Decoded, decode(tok, got), "%q", c.Text)
			}
		})
	}
}
