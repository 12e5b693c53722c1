package serving

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
)

// talk is a conversation whose next message is the model's.
type talk struct {
	asked    []chat.Message // by the client
	rendered []chat.Message // the same, with answers as the model wrote them
	past     chat.Past
	now      time.Time // of the template
}

// Chat is the prompt of a conversation. One that begins with an answer of this engine goes on from the tokens that were computed then, as far as
// the template renders the same text; with another salt it does not.
func (e *Engine) Chat(ctx context.Context, messages []chat.Message, salt []byte) (Prompt, error) {
	if e.template == nil {
		return Prompt{}, ErrNoTemplate{}
	}
	t := &talk{asked: messages, rendered: messages, now: time.Now()}
	known, n := e.memory.find(salt, messages)
	if known != nil {
		t.rendered, t.past, t.now = slices.Concat(known.rendered, messages[n:]), known.past, known.now
	}
	text, err := e.render(ctx, t, max(n-1, 0))
	if err != nil {
		return Prompt{}, err
	}
	t.past.Continue(text, e.encode)
	p, err := e.Continue(t.past.Tokens, salt)
	p.talk = t
	if known != nil {
		if at := common(known.past.Tokens, p.Tokens); at < len(known.past.Tokens) {
			p.Diverged = &Divergence{at, len(known.past.Tokens)}
		}
	}
	return p, err
}

// common is how many tokens two texts begin with in common.
func common(a, b []uint32) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// render is the text of a conversation whose message last is the answer that its past ends with.
func (e *Engine) render(ctx context.Context, t *talk, last int) (text string, err error) {
	select {
	case e.rendering <- struct{}{}:
		defer func() { <-e.rendering }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	template := *e.template
	template.Now = t.now
	text, t.rendered, err = t.past.Render(ctx, &template, t.rendered, last)
	return text, err
}

// encode is the tokens of a text that begins, or goes on from other text. BOS is there once, whether the vocabulary or the template has it.
func (e *Engine) encode(text string, begins bool) []uint32 {
	spoken := e.tokenizer.Spoken()
	switch {
	case !begins:
		return spoken.EncodeMore(text)
	case len(spoken.Encode("")) > 0:
		text = strings.TrimPrefix(text, e.template.BOS)
	}
	return spoken.Encode(text)
}

// remember keeps a conversation with its answer, for the next turn.
func (e *Engine) remember(p Prompt, v *voice) {
	if p.talk == nil {
		return
	}
	past := *v.past
	past.End(len(past.Text) - v.prompt - v.cut())
	answer := func(text string) chat.Message { return chat.Message{Role: "assistant", Content: text} }
	e.memory.add(p.Salt, append(slices.Clip(p.talk.asked), answer(string(v.said))), &conversation{
		rendered: append(slices.Clip(p.talk.rendered), answer(v.parts.Content(v.cut()))), past: past, now: p.talk.now})
}
