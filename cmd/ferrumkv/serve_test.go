//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
	"github.com/ferrumkv/ferrumkv/kvevents/pubsub"
	"github.com/stretchr/testify/require"
)

// served is a server in a process of its own.
type served struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	name string
	log  notes
	done chan struct{}
}

// notes is what a process writes to standard error.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer // embedded, its ReadFrom would go around the lock
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func startServe(t *testing.T, env []string, args ...string) *served {
	t.Helper()
	s := &served{t: t, cmd: program(t, env, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...), done: make(chan struct{})}
	s.cmd.Stderr = &s.log
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	require.NoError(t, err, "%s", &s.log)
	s.name, s.url, _ = strings.Cut(strings.TrimSpace(line), " at ")
	return s
}

// ask is the answer to a request, a GET where there is no body.
func (s *served) ask(path, body string) (status int, text string) {
	s.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer sesame")
	a, err := http.DefaultClient.Do(r)
	require.NoError(s.t, err)
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	require.NoError(s.t, err)
	return a.StatusCode, string(data)
}

// ends waits for the process, and is its exit code.
func (s *served) ends() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(time.Minute):
		require.Fail(s.t, "it does not end", "%s", &s.log)
	}
	return s.cmd.ProcessState.ExitCode()
}

// What the document shows is what a server answers, identity and time excepted.
func TestCommandsDocumentServe(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	require.NoError(t, err)
	m := regexp.MustCompile(`(?s)\n\$ ferrumkv serve &\nembedded at http://127.0.0.1:8080\n\$ curl -s http://127.0.0.1:8080(/\S+) .*?-d '(.*?)'\n(.*?\n)`).FindStringSubmatch(string(text))
	require.Len(t, m, 4)
	s := startServe(t, nil)
	require.Equal(t, "embedded", s.name)
	status, answer := s.ask(m[1], m[2])
	require.Equal(t, http.StatusOK, status)
	own := regexp.MustCompile(`"id":"cmpl-[^"]*","object":"text_completion","created":\d+`)
	require.Regexp(t, own, m[3])
	require.Equal(t, own.ReplaceAllString(m[3], ""), own.ReplaceAllString(answer, ""))
}

// SIGTERM lets answers end, and refuses others; then the program ends well.
func TestServeDrains(t *testing.T) {
	s := startServe(t, []string{"FERRUM_API_KEY=sesame"}, "--template", file(t, "t.jinja", storyTemplate), "--served-name", "tale", "--log-level", "warn")
	require.Equal(t, "tale", s.name)
	status, text := s.ask("/v1/chat/completions", `{"model":"tale","messages":[{"role":"user","content":"Once"}],"max_tokens":3}`)
	require.Equal(t, http.StatusOK, status, text)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/completions", strings.NewReader(`{"prompt":"Once","max_tokens":1000,"temperature":1.5,"seed":1,"stream":true}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	status, _ = s.ask("/readyz", "")
	require.Equal(t, http.StatusOK, status)
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, a.StatusCode, "without the key")
	require.NoError(t, a.Body.Close())
	r.Body, _ = r.GetBody()
	r.Header.Set("Authorization", "Bearer sesame")
	a, err = http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	stream := bufio.NewReader(a.Body)
	_, err = stream.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"))
	require.Zero(t, s.ends(), &s.log)
	require.Empty(t, s.log.String())
}

// Answers that take longer than --drain are cut, which the exit code says. A second signal ends the program at once.
func TestServeIsCut(t *testing.T) {
	for _, second := range []bool{false, true} {
		drain := "50ms"
		if second {
			drain = "1h"
		}
		s := startServe(t, nil, "--drain", drain, "--step-tokens", "8")
		ctx, cancel := context.WithCancel(t.Context())
		for range 8 { // together they take long enough
			body := fmt.Sprintf(`{"prompt":[%s"x"],"max_tokens":900,"temperature":2,"stream":true}`, strings.Repeat(`"x",`, 7))
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			a, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			defer a.Body.Close()
		}
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
		if second {
			require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "draining") }, time.Minute, time.Millisecond)
			require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
			require.Equal(t, -1, s.ends(), "ended by the signal")
		} else {
			require.Equal(t, exitError, s.ends())
			require.Contains(t, s.log.String(), "answers did not end within --drain 50ms, and were cut")
		}
		cancel()
	}
}

// What one server computed another one finds on the disk, and says where it is from.
func TestServeDisk(t *testing.T) {
	dir := t.TempDir()
	for _, cached := range []float64{0, 16} {
		s := startServe(t, nil, "--disk", dir, "--flush", "5s", "--host-bytes", "1MiB")
		_, text := s.ask("/v1/completions", `{"prompt":"Once upon a time","max_tokens":4,"temperature":0}`)
		var answer struct {
			Usage struct {
				Details struct {
					Cached float64 `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		require.Equal(t, cached, answer.Usage.Details.Cached, text)
		require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
		require.Zero(t, s.ends(), &s.log)
		require.Equal(t, cached > 0, strings.Contains(s.log.String(), " from_disk=16"), &s.log)
		require.Contains(t, s.log.String(), `level=INFO msg="kvcache: a disk was opened"`, "the pool's lines, too")
	}
}

// A router asks a server for the tokens of a prompt, and finds in the events of two which one has its beginning.
func TestServeRouter(t *testing.T) {
	caches, err := index.New(index.Options{BlockSize: 16})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	at := regexp.MustCompile(`msg=events at=(\S+) replay=(\S+) topic=(\S+)`)
	var servers []*served
	for range 2 {
		s := startServe(t, nil, "--events", "tcp://127.0.0.1:0")
		var m []string
		require.Eventually(t, func() bool {
			m = at.FindStringSubmatch(s.log.String())
			return m != nil
		}, time.Minute, time.Millisecond)
		require.Equal(t, "kv@"+strings.TrimPrefix(s.url, "http://")+"@embedded", m[3])
		sub := pubsub.Subscribe(pubsub.SubscriberOptions{Events: m[1], Replay: m[2]})
		t.Cleanup(func() { _ = sub.Close() })
		go func() {
			var d kvevents.Decoder
			for {
				message, err := sub.Next(ctx)
				if err != nil {
					return
				}
				_, _ = d.Decode(message.Payload, func(_ kvevents.Batch, e kvevents.Event) error { return caches.Apply(s.url, e) })
			}
		}()
		servers = append(servers, s)
	}
	for i, prompt := range []string{"Once upon a time, there was a little girl", "The big dog ran away from the garden, and"} {
		for _, salt := range []string{"", `,"cache_salt":"tenant"`} {
			body := fmt.Sprintf(`{"prompt":"%s"%s,"max_tokens":4,"temperature":0}`, prompt, salt)
			_, text := servers[0].ask("/v1/completions/render", body)
			var rendered []struct {
				Tokens []uint32 `json:"token_ids"`
			}
			require.NoError(t, json.Unmarshal([]byte(text), &rendered))
			query := index.Query{Tokens: rendered[0].Tokens}
			if salt != "" {
				query.Salt = "tenant"
			}
			require.Empty(t, caches.Find(nil, query))
			_, _ = servers[i].ask("/v1/completions", body)
			require.Eventually(t, func() bool { return len(caches.Find(nil, query)) == 1 }, time.Minute, time.Millisecond)
			found := caches.Find(nil, query)[0]
			require.Equal(t, servers[i].url, found.Owner)
			require.Equal(t, 32, found.Tokens)
			_, text = servers[i].ask("/v1/completions", body)
			require.Contains(t, text, fmt.Sprintf(`"cached_tokens":%d`, len(rendered[0].Tokens)-1))
		}
	}
}

func TestServeRefusals(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--log-level loud", "--log-level loud: accepts debug"},
		{"--max-running 0", "--max-running 0: accepts 1"}, {"--queue -1", "--queue -1: accepts 1"},
		{"--step-tokens 4", "--step-tokens 4: every request that is computed has a token in a step"},
		{"--drain -1s", "--flush and --drain: accept 0 or more"}, {"--endpoint 10.0.0.7:80", "is for --events"},
		{"--context 5000", "--context 5000: the model was made for 1024 tokens"}, {"--api-key-file none", "--api-key-file: open none"},
		{"--listen nowhere:x", "--listen nowhere:x: "}, {"--listen 127.0.0.1:0 --events 5557", "--events 5557: accepts an address"},
		{"--listen 0.0.0.0:0 --events tcp://127.0.0.1:0", "say with --endpoint IP:PORT"},
		{"--listen 127.0.0.1:0 --layout contiguous --events tcp://127.0.0.1:0", "--events: "},
		{"--template none", "--template: open none"},
	} {
		fails(t, append([]string{"serve", "--log-level", "warn"}, strings.Fields(c.args)...), c.want) // without the lines of a pool
	}
	fails(t, []string{"serve", "--api-key-file", ""}, "--api-key-file: is empty")
	fails(t, []string{"serve", "--api-key-file", file(t, "key", "a b\n")}, "need one key in one line")
	fails(t, []string{"serve", "--template", file(t, "t.jinja", "{% nothing %}")}, "the chat template: ", "name another one with --template FILE")
	for path, want := range map[string]string{"": "embedded", "/models/Qwen3-0.6B/": "Qwen3-0.6B", "a/b.gguf": "b"} {
		require.Equal(t, want, servedName(path))
	}
}

// What the model thinks is beside its answer, and not in the next prompt: usage and log say where that leaves what was computed. A template that keeps it goes on.
func TestServeThoughts(t *testing.T) {
	model := storyGGUF(t, thoughtTemplate, map[byte]string{'.': "</think>"})
	keeps := file(t, "keeps.jinja", `{% for m in messages %}{% if m.role == "user" %}{{ m.content }}: <think>{% else %}{{ m.content + "\n" }}{% endif %}{% endfor %}`)
	type reply struct {
		Choices []struct {
			Message struct {
				Role      string `json:"role"`
				Content   string `json:"content"`
				Reasoning string `json:"reasoning_content"`
			}
		}
		Usage struct {
			Total   int `json:"total_tokens"`
			Details struct {
				Cached   int `json:"cached_tokens"`
				Diverged *struct{ At, Of int }
			} `json:"prompt_tokens_details"`
		}
	}
	most := map[int]int{2: 120, 4: 30} // one thought, which the model ends
	for _, args := range [][]string{{"--model", model}, {"--model", model, "--template", keeps}} {
		s := startServe(t, nil, args...)
		require.Equal(t, "story", s.name)
		talk := func(messages ...any) (r reply) {
			body, err := json.Marshal(map[string]any{"messages": messages, "max_tokens": most[len(args)], "temperature": 0})
			require.NoError(t, err)
			status, text := s.ask("/v1/chat/completions", string(body))
			require.Equal(t, http.StatusOK, status, text)
			require.NoError(t, json.Unmarshal([]byte(text), &r))
			return r
		}
		user := func(text string) any { return map[string]any{"role": "user", "content": text} }
		a := talk(user(said[0]))
		answer := a.Choices[0].Message
		require.NotEmpty(t, answer.Reasoning)
		require.NotEmpty(t, answer.Content)
		require.NotContains(t, answer.Content+answer.Reasoning, "think>")
		b := talk(user(said[0]), map[string]any{"role": "assistant", "content": answer.Content}, user(said[1]))
		details := b.Usage.Details
		if len(args) > 2 {
			require.Nil(t, details.Diverged)
			require.Equal(t, a.Usage.Total-1, details.Cached)
			continue
		}
		before := 1 + len("user: "+said[0]+"\n")
		require.NotNil(t, details.Diverged)
		require.Equal(t, struct{ At, Of int }{before, a.Usage.Total}, *details.Diverged)
		require.Equal(t, before, details.Cached)
		require.Eventually(t, func() bool {
			return strings.Contains(s.log.String(), fmt.Sprintf(`path="diverged at token %d of %d"`, before, a.Usage.Total))
		}, time.Minute, time.Millisecond)
	}
}
