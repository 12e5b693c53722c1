package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
)

// dialogue is a conversation, and the cache of it.
type dialogue struct {
	chatFlags
	bounds
	runner     *runner.Runner[backend.AnyBuffer]
	template   chat.Template
	tokenizer  *tokenizer.Tokenizer
	out, notes io.Writer

	messages []chat.Message
	past     chat.Past
	held     *runner.Held[backend.AnyBuffer] // the cache of the past, without the last tokens; nil: there is none
}

// turn answers what the user says. Where it fails the conversation is what it was; what was interrupted is an answer, too, if anything was
// printed.
func (d *dialogue) turn(ctx context.Context, said string) (err error) {
	messages := append(d.messages[:len(d.messages):len(d.messages)], chat.Message{Role: "user", Content: said})
	text, messages, err := d.past.Render(ctx, &d.template, messages, len(messages)-2)
	if err != nil {
		return err
	}
	past := d.past
	past.Continue(text, d.encode)
	if len(past.Tokens) > d.capacity {
		more := ""
		if !d.whole {
			more = ", or give it more room with --context"
		}
		return fmt.Errorf("the conversation has %s with this message, more than %s; begin a new one%s", count(len(past.Tokens), "token"), d.limit, more)
	}
	a := &chatAnswer{User: said, PromptTokens: len(past.Tokens)}
	decoder, answer := d.tokenizer.Decoder(past.Tokens...), d.listen(text)
	emit := func(_ int, token uint32) error {
		piece, name := decoder.Add(token), d.tokenizer.Control(token)
		past.Add(token, piece+name, decoder.Whole())
		a.Tokens++
		if err := answer.hear(answer.parts.Add(cmp.Or(name, piece), name != "")); err != nil {
			return err
		}
		switch {
		case answer.over:
		case ctx.Err() != nil:
			a.Stop = "interrupted"
		default:
			return nil
		}
		return runner.ErrEnough
	}
	report, err := d.generate(ctx, past.Tokens, emit)
	if err != nil && ctx.Err() != nil { // between two tokens
		err, a.Stop = nil, "interrupted"
	}
	if err != nil || a.Tokens == 0 && a.Stop == "interrupted" {
		answer.endThought()
		d.note("the message was not answered, and is not in the conversation")
		return err
	}
	if err := answer.end(decoder.Rest()); err != nil {
		return err
	}
	if answer.over || a.Stop == "" {
		a.Stop = d.why(answer.over, a.PromptTokens, a.Tokens)
	}
	past.End(len(past.Text) - len(text) - answer.cut())
	d.past, d.messages = past, append(messages, chat.Message{Role: "assistant", Content: answer.parts.Content(answer.cut())})
	a.Text, a.Thinking = answer.said.String(), answer.thought.String()
	a.measure(report)
	return d.show(a)
}

// generate computes what is new of a prompt, and the answer.
func (d *dialogue) generate(ctx context.Context, tokens []uint32, emit func(int, uint32) error) (runner.Report, error) {
	from, err := d.goOn(tokens)
	if err != nil {
		return runner.Report{}, err
	}
	return d.runner.GoOn(ctx, []runner.Prompt{{Tokens: tokens}}, d.bounds.maxTokens, d.sampling.Sampling, emit, from, func(_ int, h runner.Held[backend.AnyBuffer]) error {
		d.held = &h
		return nil
	})
}

// goOn is the cache from which a prompt goes on, cut to what they have in common; nil: the prompt is opened, which finds in the pool and in
// tiers what it begins like.
func (d *dialogue) goOn(tokens []uint32) ([]runner.Held[backend.AnyBuffer], error) {
	if d.held == nil {
		return nil, nil
	}
	held := *d.held
	d.held = nil
	n := 0
	for n < min(len(tokens)-1, len(held.Tokens), held.Seq.Len()) && tokens[n] == held.Tokens[n] {
		n++
	}
	if n == 0 || held.Seq.Resumable(n) < n {
		return nil, held.Seq.Release()
	}
	if n < held.Seq.Len() {
		if err := held.Seq.Truncate(n); err != nil {
			return nil, errors.Join(err, held.Seq.Release())
		}
	}
	held.Tokens, held.Over = tokens, false
	return []runner.Held[backend.AnyBuffer]{held}, nil
}

// encode is the tokens of a text that begins, or goes on from other text. BOS is there once, whether the vocabulary or the template has it.
func (d *dialogue) encode(text string, begins bool) []uint32 {
	switch {
	case !begins:
		return d.tokenizer.EncodeMore(text)
	case len(d.tokenizer.Encode("")) > 0:
		text = strings.TrimPrefix(text, d.template.BOS)
	}
	return d.tokenizer.Encode(text)
}

func (d *dialogue) note(format string, a ...any) {
	fmt.Fprintf(d.notes, "["+format+"]\n", a...)
}
