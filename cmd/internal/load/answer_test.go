package load

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAnswer reads any stream: with an error that says what is wrong, or an answer whose times are in order.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"", "data: [DONE]", "\r\n: c\r\ndata:{\"choices\":[{\"text\":\"a\"}]}\r\n\r\ndata: [DONE]\r\n\r\n",
		"data: {\"choices\":[{\"delta\":{\"content\":null}}]}\n\ndata: {\"choices\":[{\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":-1}}\n",
		"event: error\ndata: x\n\n", "data: {\"error\":\"x\"}\n\n", "data: {\ndata: }\n\ndata: [DONE]",
	} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, tokens int) {
		a, err := readAnswer(strings.NewReader(text), tokens)
		if err != nil {
			require.ErrorIs(t, err, ErrRequest{})
			return
		}
		require.False(t, a.first.IsZero())
		require.False(t, a.last.Before(a.first) || a.end.Before(a.last))
		require.LessOrEqual(t, len(a.gaps), max(tokens, 0))
		prompt, output, cached := a.usage.counts()
		require.True(t, prompt >= 0 && output >= 0 && cached >= -1 && cached <= max(prompt, 0))
	})
}
