package server

import (
	"context"
	"crypto/rand"
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/openai"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
)

// ask answers a request for text, or renders its prompts.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, chat, render bool) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel() // of what is left when the client is gone or one of several prompts is refused
	asked, prompts, err := s.prompts(ctx, w, r, chat)
	a := newAnswer(asked, chat, s.opt.Name, cancel, len(prompts))
	for i := 0; err == nil && !render && i < len(prompts); i++ { // all of them, or none
		a.pieces[i], err = s.engine.Submit(ctx, prompts[i], a.Settings)
	}
	field := "prompt"
	if chat {
		field = "messages"
	}
	switch {
	case r.Context().Err() != nil:
		s.refuse(w, gone, "")
	case err != nil:
		s.refuse(w, err, field)
	case render:
		s.rendered(w, prompts, chat)
	case asked.Stream:
		s.stream(ctx, w, a)
	default:
		s.whole(ctx, w, a)
	}
}

// readers is how many requests are turned into prompts at a time. Meanwhile one of 4 MiB takes ten times that, or more.
const readers = 8

// prompts reads a request, and what it asks to continue.
func (s *Server) prompts(ctx context.Context, w http.ResponseWriter, r *http.Request, chat bool) (asked openai.Request, prompts []serving.Prompt, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return asked, nil, openai.Error{Status: http.StatusUnsupportedMediaType, Message: "the Content-Type must be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opt.Body))
	if err != nil {
		return asked, nil, errRead{err}
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return asked, nil, gone
	}
	if asked, err = openai.Parse(body, chat); err != nil {
		return asked, nil, err
	}
	if asked.Model != "" && asked.Model != s.opt.Name {
		return asked, nil, openai.Error{Status: http.StatusNotFound, Message: "there is no such model: /v1/models has the one that is served", Param: "model", Code: "model_not_found"}
	}
	add := func(p serving.Prompt, failed error) {
		if prompts = append(prompts, p); err == nil {
			err = failed
		}
	}
	if chat {
		add(s.engine.Chat(ctx, asked.Messages, asked.Salt))
	}
	for _, text := range asked.Texts {
		add(s.engine.Complete(text, asked.Salt))
	}
	for _, tokens := range asked.Tokens {
		add(s.engine.Continue(tokens, asked.Salt))
	}
	return asked, prompts, err
}

// rendered answers with the tokens of prompts.
func (s *Server) rendered(w http.ResponseWriter, prompts []serving.Prompt, chat bool) {
	all := make([]any, len(prompts))
	for i, p := range prompts {
		all[i] = map[string]any{"token_ids": p.Tokens}
	}
	if chat {
		s.send(w, http.StatusOK, all[0])
	} else {
		s.send(w, http.StatusOK, all)
	}
}

// answer is what a request is answered with.
type answer struct {
	openai.Request
	chat   bool
	head   openai.Head
	usage  openai.Usage
	cancel func()
	pieces []iter.Seq2[serving.Piece, error] // of each prompt
}

func newAnswer(r openai.Request, chat bool, model string, cancel func(), prompts int) *answer {
	id, object := "cmpl-", "text_completion"
	switch {
	case chat && r.Stream:
		id, object = "chatcmpl-", "chat.completion.chunk"
	case chat:
		id, object = "chatcmpl-", "chat.completion"
	}
	r.Settings.ID = id + strings.ToLower(rand.Text())
	return &answer{Request: r, chat: chat, cancel: cancel, pieces: make([]iter.Seq2[serving.Piece, error], prompts),
		head: openai.Head{ID: r.Settings.ID, Object: object, Created: time.Now().Unix(), Model: model}}
}

// each calls take with the pieces of all prompts as they come, one at a time. An error, of take, too, cancels what is left.
func (a *answer) each(ctx context.Context, take func(of int, p serving.Piece) error) (failed error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	one := func(of int, p serving.Piece, err error) bool {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case failed != nil:
		case ctx.Err() != nil:
			failed = gone
		case err != nil:
			failed = err
		default:
			a.usage.Add(p.End)
			failed = take(of, p)
		}
		if failed != nil {
			a.cancel()
		}
		return failed == nil
	}
	for of, pieces := range a.pieces {
		all.Go(func() {
			pieces(func(p serving.Piece, err error) bool { return one(of, p, err) })
		})
	}
	all.Wait()
	return failed
}

// choice is a part of the answer to a prompt, or the whole of it.
func (a *answer) choice(of int, p serving.Piece) openai.Choice {
	c := openai.Choice{Index: of}
	if p.End != nil {
		c.FinishReason = &p.End.Reason
	}
	switch {
	case !a.chat:
		c.Text = &p.Text
	case !a.Stream:
		c.Message = &openai.Message{Role: "assistant", Reasoning: p.Thought, Content: &p.Text}
	case p.Text == "":
		c.Delta = &openai.Message{Reasoning: p.Thought}
	default:
		c.Delta = &openai.Message{Reasoning: p.Thought, Content: &p.Text}
	}
	return c
}
