// Package server serves an engine of package serving over HTTP, with the shapes of package openai: completions and conversations, streamed and not, their
// prompts in tokens, metrics, and whether it is ready.
package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/openai"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
)

// Engine is what a server needs of serving.Engine.
type Engine interface {
	Complete(text string, salt []byte) (serving.Prompt, error)
	Continue(tokens []uint32, salt []byte) (serving.Prompt, error)
	Chat(ctx context.Context, messages []chat.Message, salt []byte) (serving.Prompt, error)
	Submit(ctx context.Context, p serving.Prompt, s serving.Settings) (iter.Seq2[serving.Piece, error], error)
	Metrics() ([]metrics.Family, error)
	Context() int
	Ready() bool
}

// Options of a Server. Limits that are 0 have defaults.
type Options struct {
	Name     string        // of the model
	Key      string        // that clients send; "": none is needed
	Loopback bool          // it listens on this machine alone, so that a name of another host is a web page's attempt to get here
	Body     int64         // most bytes of a request; 0: 4 MiB
	Slow     time.Duration // most time to send a request, and to take what was written; 0: 30 s

	Connections int          // most at a time, further ones wait; 0: 512
	Log         *slog.Logger // receives what clients do not receive, such as connections that cannot be accepted; nil: none
}

// Server answers requests with an Engine.
type Server struct {
	engine Engine
	opt    Options
	key    [sha256.Size]byte
	began  time.Time
	routes map[string]route

	reading chan struct{} // of requests that are turned into prompts
}

// route is what a path is for.
type route struct {
	method string
	open   bool // needs no key
	serve  func(http.ResponseWriter, *http.Request)
}

// New makes a server of an engine.
func New(e Engine, opt Options) *Server {
	opt.Body, opt.Slow, opt.Connections = cmp.Or(opt.Body, 4<<20), cmp.Or(opt.Slow, 30*time.Second), cmp.Or(opt.Connections, 512)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{engine: e, opt: opt, key: sha256.Sum256([]byte(opt.Key)), began: time.Now(), reading: make(chan struct{}, readers)}
	asked := func(chat, render bool) route {
		return route{http.MethodPost, false, func(w http.ResponseWriter, r *http.Request) { s.ask(w, r, chat, render) }}
	}
	s.routes = map[string]route{
		"/v1/completions":             asked(false, false),
		"/v1/completions/render":      asked(false, true),
		"/v1/chat/completions":        asked(true, false),
		"/v1/chat/completions/render": asked(true, true),
		"/v1/models":                  {http.MethodGet, false, s.models},
		"/metrics":                    {http.MethodGet, false, s.metrics},
		"/healthz":                    {http.MethodGet, true, func(w http.ResponseWriter, _ *http.Request) { _ = s.say(w, "ok\n") }},
		"/readyz":                     {http.MethodGet, true, s.ready},
	}
	return s
}

// HTTP is the server with its limits, for one listener.
func (s *Server) HTTP() *http.Server {
	open := make(chan struct{}, s.opt.Connections)
	return &http.Server{Handler: s, ReadHeaderTimeout: min(s.opt.Slow, 10*time.Second), ReadTimeout: s.opt.Slow, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelWarn),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew: // in the goroutine that accepts, which waits where there are too many
				open <- struct{}{}
			case http.StateClosed, http.StateHijacked:
				<-open
			}
		}}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // that of an earlier answer on this connection
	to, found := s.routes[r.URL.Path]
	switch {
	case s.opt.Loopback && !local(r.Host):
		s.refuse(w, openai.Error{Status: http.StatusForbidden, Message: "the host is not this machine, and the server listens on this machine alone: start it with --listen ADDR"}, "")
	case !found:
		s.refuse(w, openai.Error{Status: http.StatusNotFound, Message: "there is no such path"}, "")
	case !to.open && !s.allowed(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		s.refuse(w, openai.Error{Status: http.StatusUnauthorized, Message: "the API key is missing or wrong: send it as Authorization: Bearer KEY", Code: "invalid_api_key"}, "")
	case r.Method != to.method && !(r.Method == http.MethodHead && to.method == http.MethodGet):
		w.Header().Set("Allow", to.method)
		s.refuse(w, openai.Error{Status: http.StatusMethodNotAllowed, Message: "this path is for " + to.method}, "")
	default:
		to.serve(w, r)
	}
}

// local reports whether a Host header names this machine.
func local(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// allowed compares the key, in time that does not depend on it.
func (s *Server) allowed(r *http.Request) bool {
	if s.opt.Key == "" {
		return true
	}
	kind, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(key)))
	return subtle.ConstantTimeCompare(sum[:], s.key[:]) == 1 && strings.EqualFold(kind, "Bearer")
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	s.send(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": s.opt.Name, "object": "model", "created": s.began.Unix(), "owned_by": "ferrumkv", "max_model_len": s.engine.Context()}}})
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.engine.Ready() {
		s.refuse(w, draining, "")
		return
	}
	_ = s.say(w, "ok\n")
}

func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	families, err := s.engine.Metrics()
	var text strings.Builder
	if err == nil {
		err = metrics.Write(&text, families...)
	}
	if err != nil {
		s.refuse(w, err, "")
		return
	}
	w.Header().Set("Content-Type", metrics.ContentType)
	_ = s.say(w, text.String())
}

// say writes a text, within the time that a client has to take it.
func (s *Server) say(w http.ResponseWriter, text string) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opt.Slow))
	_, err := io.WriteString(w, text)
	return err
}
