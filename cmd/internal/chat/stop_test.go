package chat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// However a text is cut into pieces, it ends before the first stop string, and nothing of that is given.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		text string
		of   []string
		want string
		over bool
	}{
		{"hello", nil, "hello", false}, {"hello</s>more", []string{"</s>"}, "hello", true}, {"a</sb</s", []string{"</s>"}, "a</sb</s", false},
		{"aaab", []string{"aab"}, "a", true}, {"x\nUser:\nAI:", []string{"AI:", "\nUser:"}, "x", true}, {"abcd", []string{"bcde", "cd"}, "ab", true},
		{"Größe·", []string{"ße"}, "Grö", true}, {"stop", []string{"stop"}, "", true},
	} {
		rapid.Check(t, func(t *rapid.T) {
			s, got, over := NewStops(c.of), "", false
			for rest := c.text; rest != ""; {
				n := rapid.IntRange(0, len(rest)).Draw(t, "bytes")
				var text string
				text, over = s.Add(rest[:n])
				got, rest = got+text, rest[n:]
				require.True(t, strings.HasPrefix(c.want, got), "%q is given too early", got)
			}
			require.Equal(t, c.over, over)
			require.Equal(t, c.want, got+s.Rest())
		})
	}
}
