package tokenizer

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/external"
	"github.com/stretchr/testify/require"
)

// decode is the text of tokens behind others.
func decode(t *Tokenizer, tokens []uint32, before ...uint32) string {
	var text strings.Builder
	d := t.Decoder(before...)
	for _, token := range tokens {
		text.WriteString(d.Add(token))
	}
	return text.String() + d.Rest()
}

// Published tokenizer.json give the tokens and texts that expected.json beside them says:
// what Hugging Face's own implementation makes of many texts.
func TestPublishedTokenizers(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(external.Path(t, "tokenizers"), "*", "tokenizer.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		t.Run(filepath.Base(filepath.Dir(name)), func(t *testing.T) {
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			tok, err := Read(name, data, 1<<20)
			require.NoError(t, err)
			var cases []struct {
				Text    string
				IDs     []uint32
				Decoded string
			}
			data, err = os.ReadFile(filepath.Join(filepath.Dir(name), "expected.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &cases))
			require.NotEmpty(t, cases)
			bad := 0
			for _, c := range cases {
				ids := tok.Encode(c.Text)
				if len(ids) == 0 {
					ids = []uint32{}
				}
				if !assertEqual(ids, c.IDs) {
					bad++
					if bad < 6 {
						t.Errorf("ids of %q (%+q)\n got %v\nwant %v\n%q\n%q", c.Text, c.Text, ids, c.IDs, names(tok, ids), names(tok, c.IDs))
					}
				}
				if got := decode(tok, c.IDs); got != c.Decoded {
					bad++
					if bad < 6 {
						t.Errorf("decoded %q\n got %q\nwant %q", c.Text, got, c.Decoded)
					}
				}
			}
			t.Log(bad, "bad of", len(cases))
			_ = math.MaxInt
		})
	}
}
func names(t *Tokenizer, ids []uint32) (out []string) {
	for _, i := range ids {
		out = append(out, t.Piece(i))
	}
	return
}
func assertEqual(a, b []uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
