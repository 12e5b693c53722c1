package server

import (
	"context"
	"crypto/rand"
	"io"
	"iter"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/openai"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
)

// ask answers a request for text, or renders its prompts.
func (s *Server) ask(w http.ResponseWriter, r *http.Request, chat, render bool) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel() // of what is left when the client is gone or one of several prompts is refused
	asked, prompts, err := s.prompts(ctx, w, r, chat)
	if err == nil && render {
		s.rendered(w, prompts, chat)
		return
	}
	a := newAnswer(asked, chat, s.opt.Name)
	if err == nil {
		err = s.submit(ctx, a, prompts)
	}
	if err != nil {
		p := errorOf(err)
		if p.Status == http.StatusBadRequest && p.Param == "" {
			p.Param = field(chat, asked)
		}
		s.refuse(w, p)
		return
	}
	if asked.Stream {
		s.stream(ctx, w, a)
	} else {
		s.whole(ctx, w, a)
	}
}

// field is where a request has its prompts; "" for one that was not read.
func field(chat bool, r openai.Request) string {
	switch {
	case len(r.Messages) > 0:
		return "messages"
	case !chat && len(r.Texts)+len(r.Tokens) > 0:
		return "prompt"
	}
	return ""
}

// prompts reads a request, and what it asks to continue.
func (s *Server) prompts(ctx context.Context, w http.ResponseWriter, r *http.Request, chat bool) (asked openai.Request, prompts []serving.Prompt, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return asked, nil, openai.Error{Status: http.StatusUnsupportedMediaType, Message: "the Content-Type must be application/json"}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opt.Body))
	if err != nil {
		if p := errorOf(err); p.Status == http.StatusRequestEntityTooLarge {
			return asked, nil, p
		}
		return asked, nil, openai.Error{Status: http.StatusBadRequest, Message: "the request did not arrive whole: " + err.Error()}
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
	type tokens struct {
		IDs []uint32 `json:"token_ids"`
	}
	all := make([]tokens, len(prompts))
	for i, p := range prompts {
		all[i].IDs = p.Tokens
	}
	if chat {
		s.send(w, http.StatusOK, all[0])
		return
	}
	s.send(w, http.StatusOK, all)
}

// answer is what a request is answered with.
type answer struct {
	openai.Request
	chat   bool
	head   openai.Head
	usage  openai.Usage
	pieces []iter.Seq2[serving.Piece, error] // of each prompt
}

func newAnswer(r openai.Request, chat bool, model string) *answer {
	a := &answer{Request: r, chat: chat, head: openai.Head{Created: time.Now().Unix(), Model: model}}
	switch a.head.ID = strings.ToLower(rand.Text()); {
	case !chat:
		a.head.ID, a.head.Object = "cmpl-"+a.head.ID, "text_completion"
	case r.Stream:
		a.head.ID, a.head.Object = "chatcmpl-"+a.head.ID, "chat.completion.chunk"
	default:
		a.head.ID, a.head.Object = "chatcmpl-"+a.head.ID, "chat.completion"
	}
	return a
}

// submit has all prompts continued, or none.
func (s *Server) submit(ctx context.Context, a *answer, prompts []serving.Prompt) error {
	a.Settings.ID = a.head.ID
	for _, p := range prompts {
		pieces, err := s.engine.Submit(ctx, p, a.Settings)
		if err != nil {
			return err
		}
		a.pieces = append(a.pieces, pieces)
	}
	return nil
}

// heard is a piece of an answer of several.
type heard struct {
	of int
	serving.Piece
	err error
}

// all are the pieces of all prompts, as they come, until ctx ends.
func (a *answer) all(ctx context.Context) iter.Seq[heard] {
	return func(yield func(heard) bool) {
		c := make(chan heard)
		for i, pieces := range a.pieces {
			go func() {
				for piece, err := range pieces {
					select {
					case c <- heard{i, piece, err}:
					case <-ctx.Done():
						return
					}
				}
			}()
		}
		for open := len(a.pieces); open > 0; {
			select {
			case h := <-c:
				if h.End != nil {
					a.usage.Add(h.End)
					open--
				}
				if !yield(h) {
					return
				}
			case <-ctx.Done():
				yield(heard{err: context.Cause(ctx)})
				return
			}
		}
	}
}
