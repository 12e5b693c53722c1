package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/openai"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/ferrumkv/ferrumkv/schedule"
)

var draining = openai.Error{Status: http.StatusServiceUnavailable, Message: "the server is ending, and takes no more requests: try another one", Code: "draining"}

// errorOf is what a client receives for an error.
func errorOf(err error) openai.Error {
	var p openai.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
	case errors.As(err, &large):
		p = openai.Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request has more than %d bytes", large.Limit)}
	case errors.As(err, new(serving.ErrContext)):
		p = openai.Error{Status: http.StatusBadRequest, Message: err.Error(), Code: "context_length_exceeded"}
	case errors.As(err, new(serving.ErrPrompt)):
		p = openai.Error{Status: http.StatusBadRequest, Message: err.Error()}
	case errors.As(err, new(serving.ErrNoTemplate)), errors.As(err, new(chat.ErrTemplate)):
		p = openai.Error{Status: http.StatusBadRequest, Message: err.Error(), Param: "messages"}
	case errors.As(err, new(schedule.ErrQueueFull)):
		p = openai.Error{Status: http.StatusTooManyRequests, Message: "the queue is full: try again later", Code: "queue_full"}
	case errors.Is(err, schedule.ErrDraining), errors.Is(err, context.Canceled):
		p = draining
	default:
		p = openai.Error{Status: http.StatusInternalServerError, Message: err.Error()}
	}
	return p
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, p openai.Error) {
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	s.send(w, p.Status, map[string]any{"error": p})
}

// send answers with an object.
func (s *Server) send(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // no type of these fails
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	s.say(w, string(data)+"\n")
}
