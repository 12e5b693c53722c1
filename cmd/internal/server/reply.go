package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/openai"
)

// whole answers when all is there.
func (s *Server) whole(ctx context.Context, w http.ResponseWriter, a *answer) {
	texts, thoughts := make([]strings.Builder, len(a.pieces)), make([]strings.Builder, len(a.pieces))
	all := openai.Reply{Head: a.head, Choices: make([]openai.Choice, len(a.pieces))}
	for h := range a.all(ctx) {
		if h.err != nil {
			s.refuse(w, errorOf(h.err)) // a client that is gone does not mind
			return
		}
		texts[h.of].WriteString(h.Text)
		thoughts[h.of].WriteString(h.Thought)
		if h.End == nil {
			continue
		}
		text := texts[h.of].String()
		c := openai.Choice{Index: h.of, FinishReason: &h.End.Reason}
		if a.chat {
			c.Message = &openai.Message{Role: "assistant", Reasoning: thoughts[h.of].String(), Content: &text}
		} else {
			c.Text = &text
		}
		all.Choices[h.of] = c
	}
	all.Usage = a.usage
	s.send(w, http.StatusOK, all)
}

// stream answers with server-sent events, as the text comes.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, a *answer) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	to := events{w, http.NewResponseController(w), s.opt.Slow}
	chunk := func(c openai.Choice) error {
		r := openai.Reply{Head: a.head, Choices: []openai.Choice{c}}
		if a.Request.Usage {
			r.Usage = json.RawMessage("null")
		}
		return to.send(r)
	}
	empty := ""
	var err error
	for i := 0; a.chat && err == nil && i < len(a.pieces); i++ {
		err = chunk(openai.Choice{Index: i, Delta: &openai.Message{Role: "assistant", Content: &empty}})
	}
	for h := range a.all(ctx) {
		if h.err != nil {
			_ = to.send(map[string]any{"error": errorOf(h.err)})
			return
		}
		c := openai.Choice{Index: h.of}
		if !a.chat {
			c.Text = &h.Text
		} else if c.Delta = (&openai.Message{Reasoning: h.Thought}); h.Text != "" {
			c.Delta.Content = &h.Text
		}
		if h.End != nil {
			c.FinishReason = &h.End.Reason
		}
		if err == nil && (h.Text != "" || h.Thought != "" || h.End != nil) {
			err = chunk(c)
		}
		if err != nil {
			return // the client is gone, or takes nothing
		}
	}
	if a.Request.Usage {
		_ = to.send(openai.Reply{Head: a.head, Choices: []openai.Choice{}, Usage: a.usage})
	}
	_ = to.write("data: [DONE]\n\n")
}

// events writes server-sent events.
type events struct {
	w    http.ResponseWriter
	c    *http.ResponseController
	slow time.Duration
}

func (e events) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return e.write("data: " + string(data) + "\n\n")
}

// write sends a text at once, within the time that a client has to take it.
func (e events) write(text string) error {
	_ = e.c.SetWriteDeadline(time.Now().Add(e.slow))
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.c.Flush()
}
