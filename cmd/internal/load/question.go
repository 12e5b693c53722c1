package load

import "encoding/json"

// question is a request that is ready to be sent.
type question struct {
	path   string
	body   []byte
	tokens int // of the answer, at most
}

// questionBody is that of completions or of chat completions.
type questionBody struct {
	Model         string         `json:"model"`
	Prompt        any            `json:"prompt,omitempty"`
	Messages      []message      `json:"messages,omitempty"`
	MaxTokens     int            `json:"max_tokens"`
	Temperature   float64        `json:"temperature"`
	IgnoreEOS     bool           `json:"ignore_eos,omitempty"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options"`
}

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// question makes the request for tokens that follow a prompt.
func (c *Client) question(d Dialect, prompt any, tokens int) (question, error) {
	b := questionBody{Model: c.Model, MaxTokens: tokens, IgnoreEOS: c.IgnoreEOS, Stream: true, StreamOptions: map[string]any{"include_usage": true}}
	path := "/v1/completions"
	if d.Chat {
		path, b.Messages = "/v1/chat/completions", []message{{"user", prompt}}
	} else {
		b.Prompt = prompt
	}
	body, err := json.Marshal(b)
	return question{path, body, tokens}, err
}
