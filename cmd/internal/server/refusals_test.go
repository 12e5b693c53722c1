package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/ferrumkv/ferrumkv/schedule"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake is an engine that says what a test wants.
type fake struct {
	err    error // of Submit
	late   error // after the first piece
	pieces int   // without end, if negative
	each   time.Duration
	ended  chan struct{}
	panics bool // in Context
	// A prompt is made between these, unless nil.
	reading, read chan struct{}
}

func (f *fake) Complete(text string, salt []byte) (serving.Prompt, error) {
	if f.reading != nil {
		f.reading <- struct{}{}
		<-f.read
	}
	return serving.Prompt{Tokens: []uint32{uint32(len(text))}}, nil
}
func (f *fake) Continue(tokens []uint32, salt []byte) (serving.Prompt, error) {
	return serving.Prompt{Tokens: tokens}, nil
}
func (f *fake) Chat(context.Context, []chat.Message, []byte) (serving.Prompt, error) {
	return serving.Prompt{}, serving.ErrNoTemplate{}
}
func (f *fake) Metrics() ([]metrics.Family, error) { return nil, f.err }
func (f *fake) Context() int {
	if f.panics {
		panic("the engine is broken")
	}
	return 100
}
func (f *fake) Ready() bool { return !errors.Is(f.err, schedule.ErrDraining) }
func (f *fake) Submit(ctx context.Context, p serving.Prompt, s serving.Settings) (iter.Seq2[serving.Piece, error], error) {
	return func(yield func(serving.Piece, error) bool) {
		defer func() {
			if f.ended != nil {
				close(f.ended)
			}
		}()
		for i := 0; i != f.pieces; i++ {
			time.Sleep(f.each)
			if !yield(serving.Piece{Text: strings.Repeat("x", 1000)}, nil) || ctx.Err() != nil {
				return
			}
		}
		if f.late != nil {
			yield(serving.Piece{}, f.late)
			return
		}
		yield(serving.Piece{End: &serving.End{Reason: "stop", Prompt: 1, Tokens: f.pieces}}, nil)
	}, f.err
}

// serve is a server of a fake engine.
func serve(t *testing.T, f *fake, opt Options) string {
	t.Helper()
	opt.Name = "story"
	h := httptest.NewUnstartedServer(nil)
	h.Config = New(f, opt).HTTP()
	h.Start()
	t.Cleanup(h.Close)
	return h.URL
}

const completions = "/v1/completions"

// Each refusal has its status, the shape of OpenAI's, and what the client can do about it.
func TestRefusals(t *testing.T) {
	good := object{"prompt": "x"}
	for name, c := range map[string]struct {
		engine                  fake
		options                 Options
		path                    string
		body                    any
		change                  func(*http.Request)
		status                  int
		kind, param, code, want string
		header                  [2]string
	}{
		"path":         {path: "/v1/embeddings", body: good, status: 404, kind: "not_found_error", want: "no such path"},
		"method":       {path: completions, change: func(r *http.Request) { r.Method = "GET" }, body: good, status: 405, kind: "invalid_request_error", want: "POST", header: [2]string{"Allow", "POST"}},
		"method of":    {path: "/metrics", body: good, status: 405, kind: "invalid_request_error", want: "GET", header: [2]string{"Allow", "GET"}},
		"type":         {path: completions, body: good, change: func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, status: 415, kind: "invalid_request_error", want: "application/json"},
		"no type":      {path: completions, body: good, change: func(r *http.Request) { r.Header.Del("Content-Type") }, status: 415, kind: "invalid_request_error", want: "application/json"},
		"body":         {path: completions, body: object{"prompt": strings.Repeat("x", 1000)}, options: Options{Body: 100}, status: 413, kind: "invalid_request_error", want: "more than 100 bytes"},
		"JSON":         {path: completions, body: "{", status: 400, kind: "invalid_request_error", want: "not JSON"},
		"field":        {path: completions, body: object{"prompt": "x", "n": 2}, status: 400, kind: "invalid_request_error", param: "n", want: "or say 1"},
		"no name":      {path: completions, body: `{"prompt":"x","":1}`, status: 400, kind: "invalid_request_error", param: `""`, want: "does not have"},
		"chat prompt":  {path: "/v1/chat/completions", body: object{"messages": []object{say("user", "x")}, "prompt": "x"}, status: 400, kind: "invalid_request_error", param: "prompt", want: "does not have"},
		"model":        {path: completions, body: object{"prompt": "x", "model": "other"}, status: 404, kind: "not_found_error", param: "model", code: "model_not_found", want: "/v1/models"},
		"template":     {path: "/v1/chat/completions", body: object{"messages": []object{say("user", "x")}}, status: 400, kind: "invalid_request_error", param: "messages", want: "--template"},
		"context":      {path: completions, body: good, engine: fake{err: serving.ErrContext{Prompt: 99, MaxTokens: 16, Context: 100}}, status: 400, kind: "invalid_request_error", param: "prompt", code: "context_length_exceeded", want: "the context is 100 tokens, and the prompt has 99 and the answer up to 16"},
		"full":         {path: completions, body: good, engine: fake{err: schedule.ErrQueueFull{Waiting: 3}}, status: 429, kind: "rate_limit_error", code: "queue_full", want: "try again", header: [2]string{"Retry-After", "1"}},
		"draining":     {path: completions, body: good, engine: fake{err: schedule.ErrDraining}, status: 503, kind: "service_unavailable_error", code: "draining", want: "try another", header: [2]string{"Retry-After", "1"}},
		"not ready":    {path: "/readyz", change: func(r *http.Request) { r.Method = "GET" }, engine: fake{err: schedule.ErrDraining}, status: 503, kind: "service_unavailable_error", code: "draining"},
		"device":       {path: completions, body: good, engine: fake{err: errors.New("the device burns")}, status: 500, kind: "server_error", want: "burns"},
		"later":        {path: completions, body: good, engine: fake{pieces: 1, late: errors.New("the device burns")}, status: 500, kind: "server_error", want: "burns"},
		"cut":          {path: completions, body: good, engine: fake{pieces: 1, late: fmt.Errorf("x: %w", context.Canceled)}, status: 503, kind: "service_unavailable_error", code: "draining"},
		"key":          {path: completions, body: good, options: Options{Key: "secret"}, status: 401, kind: "authentication_error", code: "invalid_api_key", want: "Authorization", header: [2]string{"WWW-Authenticate", "Bearer"}},
		"wrong key":    {path: completions, body: good, options: Options{Key: "secret"}, change: func(r *http.Request) { r.Header.Set("Authorization", "Bearer secre") }, status: 401, kind: "authentication_error", code: "invalid_api_key"},
		"wrong scheme": {path: completions, body: good, options: Options{Key: "secret"}, change: func(r *http.Request) { r.Header.Set("Authorization", "Basic secret") }, status: 401, kind: "authentication_error", code: "invalid_api_key"},
		"metrics":      {path: "/metrics", options: Options{Key: "secret"}, change: func(r *http.Request) { r.Method = "GET" }, status: 401, kind: "authentication_error", code: "invalid_api_key"},
		"host":         {path: completions, body: good, options: Options{Loopback: true}, change: func(r *http.Request) { r.Host = "evil.example" }, status: 403, kind: "permission_error", want: "not this machine"},
		"host of":      {path: "/healthz", options: Options{Loopback: true}, change: func(r *http.Request) { r.Method, r.Host = "GET", "10.0.0.7:8080" }, status: 403, kind: "permission_error"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, serve(t, &c.engine, c.options)+c.path, c.body)
			if c.change != nil {
				c.change(r)
			}
			status, header, text := do(t, r)
			require.Equal(t, c.status, status, text)
			e := decoded(t, text)["error"].(object)
			given := func(text string) any {
				if text == "" {
					return nil
				}
				return text
			}
			require.Equal(t, c.kind, e["type"])
			require.Equal(t, given(c.param), e["param"])
			require.Equal(t, given(c.code), e["code"])
			require.Contains(t, e["message"], c.want)
			require.Equal(t, "application/json", header.Get("Content-Type"))
			if c.header[0] != "" {
				require.Equal(t, c.header[1], header.Get(c.header[0]))
			}
		})
	}
}

func TestTaken(t *testing.T) {
	url := serve(t, &fake{pieces: 1}, Options{Key: "secret", Loopback: true})
	for _, host := range []string{"localhost", "LOCALHOST:80", "127.0.0.1", "127.1.2.3:8080", "[::1]:8080"} {
		r := request(t, url+completions, object{"prompt": "x", "model": "story"})
		r.Host = host
		r.Header.Set("Authorization", "bearer secret")
		r.Header.Set("Content-Type", "Application/JSON; charset=utf-8")
		status, _, text := do(t, r)
		require.Equal(t, 200, status, text)
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n"} {
		r := request(t, url+path, "")
		r.Method = "GET"
		status, _, text := do(t, r)
		require.Equal(t, 200, status)
		require.Equal(t, want, text, "without a key")
	}
	r := request(t, url+"/v1/models", "")
	r.Method = "GET"
	r.Header.Set("Authorization", "Bearer secret")
	_, _, text := do(t, r)
	require.Equal(t, "story", at(decoded(t, text), "data.0.id"))
}

// An error in the middle of a stream is its last event.
func TestStreamFails(t *testing.T) {
	url := serve(t, &fake{pieces: 2, late: errors.New("the device burns")}, Options{})
	status, _, text := do(t, request(t, url+completions, object{"prompt": "x", "stream": true}))
	require.Equal(t, 200, status)
	events := strings.Split(strings.TrimSpace(text), "\n\n")
	require.Len(t, events, 3)
	require.Equal(t, `data: {"error":{"code":null,"message":"the device burns","param":null,"type":"server_error"}}`, events[2])
}

// A handler that fails closes its connection alone, and the log has it.
func TestPanic(t *testing.T) {
	var log logged
	url := serve(t, &fake{panics: true}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	r := request(t, url+"/v1/models", "")
	r.Method = http.MethodGet
	_, err := http.DefaultClient.Do(r)
	require.Error(t, err)
	eventually(t, func() bool { return strings.Contains(log.String(), "the engine is broken") })
	status, _, _ := do(t, request(t, url+completions, object{"prompt": "x"}))
	require.Equal(t, 200, status)
}

// HEAD is GET without its body.
func TestHead(t *testing.T) {
	url := serve(t, &fake{}, Options{})
	for path, want := range map[string]int{"/healthz": 200, "/v1/models": 200, completions: 405, "/none": 404} {
		r := request(t, url+path, "")
		r.Method = http.MethodHead
		status, _, text := do(t, r)
		require.Equal(t, want, status, path)
		require.Empty(t, text)
	}
}

// A client that closes its side of the connection is gone, as far as a server can know; it does not hear that the server ends.
func TestHalfClosed(t *testing.T) {
	f := &fake{pieces: -1, each: 10 * time.Millisecond}
	c, err := net.Dial("tcp", strings.TrimPrefix(serve(t, f, Options{}), "http://"))
	require.NoError(t, err)
	defer c.Close()
	body := `{"prompt":"x","stream":true}`
	_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).CloseWrite())
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(answer), "the client closed the connection")
	require.NotContains(t, string(answer), "draining")
}

// However many clients send the largest requests, a few are read at a time.
func TestReadAtATime(t *testing.T) {
	f := &fake{pieces: 1, reading: make(chan struct{}), read: make(chan struct{})}
	url := serve(t, f, Options{})
	var all sync.WaitGroup
	for range 2 * readers {
		all.Go(func() {
			status, _, _ := do(t, request(t, url+completions, object{"prompt": "x"}))
			assert.Equal(t, 200, status)
		})
	}
	for range readers {
		<-f.reading
	}
	select {
	case <-f.reading:
		require.Fail(t, "another one")
	case <-time.After(100 * time.Millisecond):
	}
	go func() {
		for range f.reading {
		}
	}()
	close(f.read)
	all.Wait()
	close(f.reading)
}

// A client that takes nothing is left, and one that sends nothing, too.
func TestSlowClients(t *testing.T) {
	f := &fake{pieces: -1, ended: make(chan struct{})}
	url := serve(t, f, Options{Slow: 300 * time.Millisecond})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer c.Close()
	body := `{"prompt":"x","stream":true}`
	_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	<-f.ended

	for _, part := range []string{"POST /v1/comp", "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(c, part)
		require.NoError(t, err)
		answer, err := io.ReadAll(c)
		require.NoError(t, err)
		require.NotContains(t, string(answer), "200 OK")
		require.NoError(t, c.Close())
	}
	require.Error(t, func() error {
		r := request(t, url+completions, object{"prompt": "x"})
		r.Header.Set("X-Large", strings.Repeat("x", 64<<10))
		a, err := http.DefaultClient.Do(r)
		if err == nil {
			defer a.Body.Close()
			err = fmt.Errorf("status %d", a.StatusCode)
			require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, a.StatusCode)
		}
		return err
	}())
}

// Connections beyond the limit wait until another one ends.
func TestConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // a server of httptest holds a lock while it waits
	require.NoError(t, err)
	h, url := New(&fake{}, Options{Connections: 2}).HTTP(), "http://"+l.Addr().String()
	go func() { _ = h.Serve(l) }()
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	var open []net.Conn
	for range 2 {
		c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		require.NoError(t, err)
		open = append(open, c)
	}
	time.Sleep(50 * time.Millisecond) // until both are accepted
	client := &http.Client{Transport: &http.Transport{}, Timeout: 300 * time.Millisecond}
	_, err = client.Get(url + "/healthz")
	require.Error(t, err)
	for _, c := range open {
		require.NoError(t, c.Close())
	}
	client.Timeout = 20 * time.Second
	a, err := client.Get(url + "/healthz")
	require.NoError(t, err)
	require.NoError(t, a.Body.Close())
	client.CloseIdleConnections()
}
