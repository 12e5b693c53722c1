package runner

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
)

// story is the published greedy run of stories260K.
type story struct {
	Steps []struct {
		Pos        int
		Tok, Next  uint32
		Top1, Top2 float64
		Top2ID     uint32
	}
}

// stories is a file of stories260K, or skips.
func stories(t testing.TB, file string) string { return external.Path(t, "model", file) }

func loadStories(t testing.TB, ext string) (*Model, *tokenizer.Tokenizer) {
	tokenizer := ""
	if ext == ".bin" {
		tokenizer = stories(t, "tok512.bin")
	}
	m, tok, err := Load(stories(t, "stories260K"+ext), tokenizer, nil)
	require.NoError(t, err)
	return m, tok
}

func readJSON(t testing.TB, data []byte, err error, v any) {
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, v))
}

func goldenStory(t testing.TB) (s story) {
	data, err := os.ReadFile(stories(t, "golden256.local.json"))
	readJSON(t, data, err, &s)
	require.Len(t, s.Steps, 256)
	return s
}

// expectation is a case of the demo model's expected.json.
type expectation struct {
	Prompt, Text string
	Bytes        int
	Margin       float64            `json:"min_margin"`
	Safe         int                `json:"bytes_before_margin_0_02"`
	First        map[uint32]float64 `json:"first_logits"`
	Same         map[string]int     `json:"same_bytes"`
}

func loadDemo(t testing.TB) (*Model, *tokenizer.Tokenizer, []expectation) {
	m, tok, err := LoadFS(modeldata.Files, ".")
	require.NoError(t, err)
	require.NotNil(t, tok)
	var expected struct{ Cases []expectation }
	data, err := modeldata.Files.ReadFile("expected.json")
	readJSON(t, data, err, &expected)
	require.Len(t, expected.Cases, 3)
	return m, tok, expected.Cases
}

func top(logits []float64) uint32 {
	best := 0
	for i, l := range logits {
		if l > logits[best] {
			best = i
		}
	}
	return uint32(best)
}

// The weights and the formulas are right before the cache has any part in it.
func TestNaiveGivesTheGoldens(t *testing.T) {
	for _, ext := range []string{".bin", ".gguf"} {
		t.Run("stories260K"+ext, func(t *testing.T) {
			m, _ := loadStories(t, ext)
			n := newNaive(m)
			for _, s := range goldenStory(t).Steps {
				logits := n.step(s.Tok)
				require.Equal(t, s.Next, top(logits), "position %d", s.Pos)
				require.InDelta(t, s.Top1, logits[s.Next], 1e-3)
				require.InDelta(t, s.Top2, logits[s.Top2ID], 1e-3)
			}
		})
	}
	t.Run("demo", func(t *testing.T) {
		m, tok, cases := loadDemo(t)
		for _, c := range cases {
			n := newNaive(m)
			var logits []float64
			for _, token := range tok.Encode(c.Prompt) {
				logits = n.step(token)
			}
			for token, want := range c.First {
				require.InDelta(t, want, logits[token], 1e-3)
			}
			for _, b := range []byte(c.Text[:12]) {
				require.Equal(t, uint32(b), top(logits))
				logits = n.step(uint32(b))
			}
		}
	})
}
