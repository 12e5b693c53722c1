package load

import (
	"context"
	"math/rand/v2"
	"strings"
)

// guessedWordTokens is for servers that do not count: what tokenizers of byte pairs make of such words, about.
const guessedWordTokens = 2

// Words of the two prompts that are compared. Even where each letter is a token they fit the context of a small model.
const fewWords, manyWords = 16, 80

// Calibrate asks a server how many tokens words have: by two prompts of different lengths, of which the shorter one is
// the beginning of the longer one. counted is false if the server does not say it; the dialect is then a guess.
func Calibrate(ctx context.Context, c *Client, d Dialect, seed uint64) (calibrated Dialect, counted bool, err error) {
	if d.Vocabulary > 0 {
		return d, true, nil
	}
	var tokens [2]int
	for i, words := range [...]int{fewWords, manyWords} {
		var text strings.Builder
		writeWords(&text, rand.NewPCG(seed, calibrateStream), words)
		q, err := c.question(d, strings.TrimPrefix(text.String(), " "), 1)
		if err != nil {
			return d, false, err
		}
		a, err := c.ask(ctx, q)
		if err != nil {
			if ctx.Err() != context.Canceled {
				err = c.failure(err)
			}
			return d, false, err
		}
		tokens[i] = a.usage.Prompt
	}
	d.WordTokens, d.Overhead = guessedWordTokens, 0
	if tokens[0] < 1 || tokens[1] <= tokens[0] {
		return d, false, nil
	}
	d.WordTokens = float64(tokens[1]-tokens[0]) / (manyWords - fewWords)
	d.Overhead = max(float64(tokens[0])-fewWords*d.WordTokens, 0)
	return d, true, nil
}
