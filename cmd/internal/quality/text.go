package quality

import (
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
)

// endOfText stands between two texts of a file.
const endOfText = "<|endoftext|>"

// Texts cuts a file into its texts and those into tokens, each from BOS on and at most as
// many as the model's context. A text of less than two tokens predicts nothing.
func Texts(file string, m *runner.Model, t *tokenizer.Tokenizer) ([][]uint32, error) {
	var texts [][]uint32
	for _, text := range strings.Split(file, endOfText) {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		tokens := t.Encode(text)
		if tokens = tokens[:min(len(tokens), m.Context)]; len(tokens) > 1 {
			texts = append(texts, tokens)
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("no text of two tokens; texts are separated by %s", endOfText)
	}
	return texts, nil
}
