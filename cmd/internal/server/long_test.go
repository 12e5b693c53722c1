package server

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The time that a client has to send its request, and to take a piece, is no limit for an answer.
func TestLongAnswers(t *testing.T) {
	for _, stream := range []bool{false, true} {
		f := &fake{pieces: 20, each: 50 * time.Millisecond}
		url := serve(t, f, Options{Slow: 300 * time.Millisecond})
		status, _, text := do(t, request(t, url+completions, object{"prompt": "x", "stream": stream}))
		require.Equal(t, 200, status, text)
		require.Equal(t, 20, strings.Count(text, strings.Repeat("x", 1000)))
	}
}
