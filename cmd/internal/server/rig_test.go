package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/backend"
	_ "github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
)

// The test binary renders templates, as the program does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == chat.Apart {
		if err := chat.Serve(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// story is a chat template for the embedded model, which was not made for conversations.
const story = `{% for m in messages %}{% if m.role == "assistant" %}{{ m.content }}
{% else %}{{ m.role }}: {{ m.content }}
{% endif %}{% endfor %}`

// rig is a server of the embedded model.
type rig struct {
	*testing.T
	engine *serving.Engine
	runner *runner.Runner[backend.AnyBuffer]
	url    string
	log    logged
	ended  chan struct{}
}

type rigOptions struct {
	engine serving.Options
	server Options
	memory kvcache.Memory
	disk   string // the folder of a tier; "": there is none
}

func newRig(t *testing.T, opt rigOptions) *rig {
	t.Helper()
	be, err := backend.Open("cpu")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, be.Close()) })
	m, tok, err := runner.LoadFS(modeldata.Files, ".")
	require.NoError(t, err)
	opt.memory.Layout = kvcache.Paged
	if opt.memory.MaxSeqs == 0 {
		opt.memory.MaxSeqs = 4
	}
	r := &rig{T: t, ended: make(chan struct{})}
	r.runner, err = runner.New(be, m, runner.Options{Cache: kvcache.Config{Memory: opt.memory, Tiers: tiers(opt.disk)}, Threads: 1})
	require.NoError(t, err)
	opt.server.Name = "story"
	if opt.engine.Template == nil {
		opt.engine.Template = &chat.Template{Source: story}
	}
	opt.engine.Log = slog.New(slog.NewTextHandler(&r.log, nil))
	r.engine, err = serving.New(r.runner, m, tok, opt.engine)
	require.NoError(t, err)
	h := httptest.NewUnstartedServer(nil)
	h.Config = New(r.engine, opt.server).HTTP()
	h.Start()
	r.url = h.URL
	go func() {
		defer close(r.ended)
		require.NoError(t, r.engine.Run(context.WithoutCancel(t.Context())))
	}()
	t.Cleanup(func() {
		r.engine.Drain()
		<-r.ended
		h.Close()
		stats, err := r.runner.Pool().Stats()
		require.NoError(t, err)
		require.Zero(t, stats.Held, "blocks that nobody gave back")
		require.NoError(t, r.runner.Pool().Check())
		require.NoError(t, r.runner.Close())
	})
	return r
}

// tiers are those of a folder; "": none.
func tiers(dir string) (t config.Tiers) {
	if dir != "" {
		t.Disk = config.Disk{Dir: dir, Bytes: 8 << 20, Floor: 1}
	}
	return t
}

// logged is a log that several goroutines write.
type logged struct {
	sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func (l *logged) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}

// object is JSON.
type object = map[string]any

// request is a POST of JSON.
func request(t testing.TB, url string, body any) *http.Request {
	t.Helper()
	text, isText := body.(string)
	if !isText {
		data, err := json.Marshal(body)
		require.NoError(t, err)
		text = string(data)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// do returns the answer to a request.
func do(t testing.TB, r *http.Request) (status int, header http.Header, body string) {
	t.Helper()
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	return a.StatusCode, a.Header, string(data)
}

// decoded is an object of JSON.
func decoded(t testing.TB, text string) (o object) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &o), text)
	return o
}

// at is a value in JSON, by a path of names and numbers such as choices.0.text.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case object:
			v = x[name]
		case []any:
			i := 0
			_, _ = fmt.Sscan(name, &i)
			v = x[i]
		default:
			return nil
		}
	}
	return v
}

// post wants an answer to a request.
func (r *rig) post(path string, body any) object {
	r.Helper()
	status, _, text := do(r, request(r, r.url+path, body))
	require.Equal(r, http.StatusOK, status, text)
	return decoded(r, text)
}

// complete is a greedy answer.
func (r *rig) complete(prompt any, tokens int, more ...object) object {
	r.Helper()
	body := object{"prompt": prompt, "max_tokens": tokens, "temperature": 0}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return r.post("/v1/completions", body)
}

// chunks are the events of a stream.
func (r *rig) chunks(path string, body any) (all []object) {
	r.Helper()
	a, err := http.DefaultClient.Do(request(r, r.url+path, body))
	require.NoError(r, err)
	defer a.Body.Close()
	require.Equal(r, "text/event-stream", a.Header.Get("Content-Type"))
	lines, done := bufio.NewScanner(a.Body), false
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		require.Equal(r, lines.Text() != "", is)
		switch {
		case data == "[DONE]":
			done = true
		case is:
			require.False(r, done)
			all = append(all, decoded(r, data))
		}
	}
	require.NoError(r, lines.Err())
	require.True(r, done)
	return all
}

// eventually waits for what takes a moment.
func eventually(t testing.TB, what func() bool) {
	t.Helper()
	require.Eventually(t, what, 20*time.Second, time.Millisecond)
}

// golden are the expected texts of the embedded model.
func golden(t testing.TB) []struct{ Prompt, Text string } {
	t.Helper()
	data, err := modeldata.Files.ReadFile("expected.json")
	require.NoError(t, err)
	var expected struct {
		Cases []struct{ Prompt, Text string }
	}
	require.NoError(t, json.Unmarshal(data, &expected))
	return expected.Cases
}
