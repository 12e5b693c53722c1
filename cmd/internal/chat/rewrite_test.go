package chat

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStrftime(t *testing.T) {
	at := time.Date(2026, 3, 5, 9, 7, 3, 0, time.UTC)
	require.Equal(t, "05 Mar 2026, Thursday 5/3 26 09:07:03 AM 100% %Q %", strftime(at, "%d %b %Y, %A %-d/%-m %y %H:%M:%S %p 100%% %Q %"))
	require.Equal(t, "2026-03-05%-", strftime(at, "%F%-"))
	_, err := (&Template{Source: "{{ strftime_now() }}"}).render(nil, false)
	require.ErrorContains(t, err, "takes a format")
}

// Whatever a template is, text without tags stays, and what is made of one is no longer than its escapes make it.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{"a\n{{- b -}}\n", "{% raw %}{{ x }}{% endraw %}", "{# c -#} {%+ if x +%}\ny{% endif %}", `{{ "\u00e9\"'" ~ 'a\
b' }}`, "{{ {'a': {'b': 1}} }}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		out, err := rewrite(source)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(out), 16*len(source)+16)
		if !strings.Contains(source, "{") && !strings.Contains(source, "\r") {
			text, err := (&Template{Source: source}).render(nil, false)
			require.NoError(t, err)
			require.Equal(t, strings.TrimSuffix(source, "\n"), text)
		}
	})
}
