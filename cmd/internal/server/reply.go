package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/openai"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
)

// whole answers when all is there.
func (s *Server) whole(ctx context.Context, w http.ResponseWriter, a *answer) {
	all := openai.Reply{Head: a.head, Choices: make([]openai.Choice, len(a.pieces))}
	said := make([]struct{ text, thought strings.Builder }, len(a.pieces))
	err := a.each(ctx, func(of int, p serving.Piece) error {
		said[of].text.WriteString(p.Text)
		said[of].thought.WriteString(p.Thought)
		if p.End != nil {
			all.Choices[of] = a.choice(of, serving.Piece{Text: said[of].text.String(), Thought: said[of].thought.String(), End: p.End})
		}
		return nil
	})
	if err != nil {
		s.refuse(w, err, "")
		return
	}
	all.Usage = a.usage
	s.send(w, http.StatusOK, all)
}

// stream answers with server-sent events, as the text comes.
func (s *Server) stream(ctx context.Context, w http.ResponseWriter, a *answer) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	var broken error // the client is gone, or takes nothing
	event := func(data string) error {
		if broken == nil {
			broken = s.say(w, "data: "+data+"\n\n")
		}
		if broken == nil {
			broken = http.NewResponseController(w).Flush()
		}
		return broken
	}
	chunk := func(c openai.Choice) error {
		r := openai.Reply{Head: a.head, Choices: []openai.Choice{c}}
		if a.Request.Usage {
			r.Usage = json.RawMessage("null")
		}
		return event(encoded(r))
	}
	for of := 0; a.chat && of < len(a.pieces); of++ {
		_ = chunk(openai.Choice{Index: of, Delta: &openai.Message{Role: "assistant", Content: new(string)}})
	}
	err := a.each(ctx, func(of int, p serving.Piece) error {
		if p.Text == "" && p.Thought == "" && p.End == nil {
			return broken
		}
		return chunk(a.choice(of, p))
	})
	if err != nil {
		_ = event(encoded(map[string]any{"error": errorOf(err, "")}))
		return
	}
	if a.Request.Usage {
		_ = event(encoded(openai.Reply{Head: a.head, Choices: []openai.Choice{}, Usage: a.usage}))
	}
	_ = event("[DONE]")
}

// encoded is a value in JSON.
func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // no type of these fails
	}
	return string(data)
}

// send answers with an object.
func (s *Server) send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = s.say(w, encoded(v)+"\n") // an error is the client's, which is gone
}
