package load

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"math"
	"strings"
	"time"
)

// answer is a stream that was read to its end.
type answer struct {
	first, last, end time.Time // of text, or of the event that says that none follows: the end of text is a token, too
	chunks           int
	gaps             []float32 // seconds
	usage            usage
}

// usage is the server's account, of which anything may be missing.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// counts are the tokens of prompt and answer, 0 where they are not known, and of the prompt's those that were cached, -1
// likewise. Numbers that cannot be are not known.
func (u usage) counts() (prompt, output, cached int) {
	possible := func(n int) int {
		if n < 0 || n > math.MaxInt32 {
			return 0
		}
		return n
	}
	prompt, output, cached = possible(u.Prompt), possible(u.Completion), -1
	if d := u.Details; d != nil && d.Cached != nil && *d.Cached >= 0 && *d.Cached <= prompt {
		cached = *d.Cached
	}
	return prompt, output, cached
}

// chunk is an event of either kind of completion.
type chunk struct {
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content          string `json:"content"`
			Reasoning        string `json:"reasoning"` // what a model thinks, by either name
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// text reports whether the chunk has any. The first one of a chat has a role alone.
func (c *chunk) text() bool {
	for _, choice := range c.Choices {
		if d := choice.Delta; choice.Text+d.Content+d.Reasoning+d.ReasoningContent != "" {
			return true
		}
	}
	return false
}

func (c *chunk) finished() bool {
	for _, choice := range c.Choices {
		if choice.FinishReason != nil && *choice.FinishReason != "" {
			return true
		}
	}
	return false
}

// readAnswer reads a stream to its end. It keeps no more gaps than tokens, however many pieces come.
func readAnswer(body io.Reader, tokens int) (a answer, err error) {
	finished := false
	events := newEvents(body)
	for {
		e, err := events.next()
		switch {
		case err == io.EOF && !finished:
			return a, ErrRequest{Broken, "the stream ended before the answer"}
		case err == nil && e.data == "[DONE]" && a.first.IsZero(): // or the server that computes nothing would be the fastest
			return a, ErrRequest{Broken, "the stream has no answer"}
		case err == io.EOF, err == nil && e.data == "[DONE]":
			a.end = time.Now()
			return a, nil
		case err != nil:
			return a, err
		}
		done, err := a.take(e, tokens)
		if err != nil {
			return a, err
		}
		finished = finished || done
	}
}

// take takes an event into account; finished: no text follows.
func (a *answer) take(e event, tokens int) (finished bool, err error) {
	now := time.Now()
	if e.name == "error" {
		return false, ErrRequest{Reported, errorText([]byte(e.data))}
	}
	var c chunk
	if err := json.Unmarshal([]byte(e.data), &c); err != nil {
		return false, ErrRequest{Malformed, err.Error()}
	}
	if len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")) {
		return false, ErrRequest{Reported, errorText([]byte(e.data))}
	}
	if c.Usage != nil {
		a.usage = *c.Usage
	}
	finished = c.finished()
	switch text := c.text(); {
	case text && a.chunks == 0:
		a.first, a.last, a.chunks = now, now, 1
	case text:
		if len(a.gaps) < tokens {
			a.gaps = append(a.gaps, float32(now.Sub(a.last).Seconds()))
		}
		a.last = now
		a.chunks++
	case finished && a.chunks == 0: // the end of text is the only token
		a.first, a.last = now, now
	case finished:
		a.last = now
	}
	return finished, nil
}

// errorText is the message of an error as servers send it, or else all that they sent, in a line.
func errorText(text []byte) string {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	var plain string
	said := ""
	if json.Unmarshal(text, &e) == nil {
		_ = json.Unmarshal(e.Error, &inner) // which of the two it is
		_ = json.Unmarshal(e.Error, &plain)
		said = cmp.Or(inner.Message, plain, e.Message)
	}
	return strings.Join(strings.Fields(cmp.Or(said, string(text))), " ")
}
