package tokenizer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever the merges, the tokens are those that trying all pairs again and again gives.
func TestMergesAsTheDefinitionSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := []string{"a", "b", "c"}
		var pairs []any
		var order [][2]string
		for range rapid.IntRange(0, 12).Draw(t, "merges") {
			pair := [2]string{rapid.SampledFrom(tokens).Draw(t, "left"), rapid.SampledFrom(tokens).Draw(t, "right")}
			joined := pair[0] + pair[1]
			if strings.Contains("\x00"+strings.Join(tokens, "\x00")+"\x00", "\x00"+joined+"\x00") {
				continue // one way to each token, so that no merge is there twice
			}
			tokens, pairs, order = append(tokens, joined), append(pairs, list(pair[0], pair[1])), append(order, pair)
		}
		tok := read(t, crafted(tokens, pairs, nil))
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 40, -1).Draw(t, "text")
		want := strings.Split(text, "")
		for merged := true; merged; {
			merged = false
			for _, pair := range order {
				for i := 0; i+1 < len(want); i++ {
					if want[i] == pair[0] && want[i+1] == pair[1] {
						want = append(append(want[:i:i], pair[0]+pair[1]), want[i+2:]...)
						merged = true
						break
					}
				}
				if merged {
					break
				}
			}
		}
		var got []string
		for _, id := range tok.Encode(text) {
			got = append(got, tok.Piece(id))
		}
		require.Equal(t, strings.Join(want, " "), strings.Join(got, " "))
	})
}

// Long texts without spaces are one word. Pairs are looked up in proportion to its length.
func TestMergeIsNotQuadratic(t *testing.T) {
	const n = 1 << 13
	symbols := make([]symbol, n)
	for i := range symbols {
		symbols[i] = symbol{i, i + 1, 0}
	}
	looked := 0
	left := merge(symbols, func(l, r symbol) (int, float64, bool) {
		looked++
		return l.token + 1, float64(l.token), l.token == r.token
	})
	require.Equal(t, []symbol{{0, n, 13}}, left)
	require.Less(t, looked, 4*n)
}
