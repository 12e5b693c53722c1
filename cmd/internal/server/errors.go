package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/openai"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/ferrumkv/ferrumkv/schedule"
)

var (
	draining = openai.Error{Status: http.StatusServiceUnavailable, Message: "the server is ending, and takes no more requests: try another one", Code: "draining"}
	gone     = openai.Error{Status: http.StatusBadRequest, Message: "the client closed the connection, which cancels its answers"}
)

// errRead is a body that does not come.
type errRead struct{ error }

func (e errRead) Unwrap() error { return e.error }

// errorOf is what a client receives for an error; field is where its prompts are.
func errorOf(err error, field string) openai.Error {
	var p openai.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &large):
		return openai.Error{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request has more than %d bytes", large.Limit)}
	case errors.As(err, new(errRead)):
		return openai.Error{Status: http.StatusBadRequest, Message: "the request did not arrive whole: " + err.Error()}
	case errors.As(err, new(serving.ErrContext)):
		return openai.Error{Status: http.StatusBadRequest, Message: err.Error(), Param: field, Code: "context_length_exceeded"}
	case errors.As(err, new(serving.ErrPrompt)), errors.As(err, new(serving.ErrNoTemplate)), errors.As(err, new(chat.ErrTemplate)):
		return openai.Error{Status: http.StatusBadRequest, Message: err.Error(), Param: field}
	case errors.As(err, new(schedule.ErrQueueFull)):
		return openai.Error{Status: http.StatusTooManyRequests, Message: "the queue is full: try again later", Code: "queue_full"}
	case errors.Is(err, schedule.ErrDraining), errors.Is(err, context.Canceled):
		return draining
	}
	return openai.Error{Status: http.StatusInternalServerError, Message: err.Error()}
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, err error, field string) {
	p := errorOf(err, field)
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	s.send(w, p.Status, map[string]any{"error": p})
}
