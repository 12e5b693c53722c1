package openai

import "github.com/ferrumkv/ferrumkv/cmd/internal/serving"

// Head is what every object of an answer begins with.
type Head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
}

// Reply is an answer, or a chunk of one.
type Reply struct {
	Head
	Choices []Choice `json:"choices"`
	Usage   any      `json:"usage,omitempty"`
}

// Choice is the answer to one prompt: a text, a message, or what is new of a message.
type Choice struct {
	Index        int      `json:"index"`
	Text         *string  `json:"text,omitempty"`
	Message      *Message `json:"message,omitempty"`
	Delta        *Message `json:"delta,omitempty"`
	Logprobs     any      `json:"logprobs"`
	FinishReason *string  `json:"finish_reason"`
}

// Message is the model's.
type Message struct {
	Role      string  `json:"role,omitempty"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	Content   *string `json:"content,omitempty"`
}

// Usage counts the tokens of a request.
type Usage struct {
	Prompt  int `json:"prompt_tokens"`
	Answer  int `json:"completion_tokens"`
	Total   int `json:"total_tokens"`
	Details struct {
		Cached   int                 `json:"cached_tokens"`
		Diverged *serving.Divergence `json:"diverged,omitempty"` // where the prompt left the conversation that it goes on from
	} `json:"prompt_tokens_details"`
}

// Add counts an answer, at its end; nil: not yet.
func (u *Usage) Add(e *serving.End) {
	if e == nil {
		return
	}
	u.Prompt, u.Answer, u.Details.Cached = u.Prompt+e.Prompt, u.Answer+e.Tokens, u.Details.Cached+e.Cached
	u.Total, u.Details.Diverged = u.Prompt+u.Answer, e.Diverged
}
