package load

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
	"github.com/stretchr/testify/require"
)

// pipes are connections within the process: in a bubble of synctest time stands still while they are read.
type pipes struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialled:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }
func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialled <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// served runs a test with a client of a server, in time that passes only where all wait.
func served(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, c *Client)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{dialled: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, err := io.ReadAll(q.Body) // a server notices that a client left only when it has read all
			if err == nil {
				q.Body = io.NopCloser(bytes.NewReader(body))
				handler(w, q)
			}
		})}
		go server.Serve(p)
		c, err := NewClient("http://server.test")
		require.NoError(t, err)
		transport := c.http.Transport.(*http.Transport)
		transport.Proxy, transport.DialContext = nil, p.dial
		c.Model, c.Key = "m", "secret-key"
		test(t, c)
		c.Close()
		require.NoError(t, server.Shutdown(t.Context()))
	})
}

// stream begins a stream of events, each after a delay.
type stream struct {
	http.ResponseWriter
}

func begin(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	return stream{w}
}

func (s stream) raw(after time.Duration, text string) {
	time.Sleep(after)
	io.WriteString(s, text)
	s.ResponseWriter.(http.Flusher).Flush()
}

func (s stream) text(after time.Duration, text string) {
	s.raw(after, fmt.Sprintf("data: {\"choices\":[{\"text\":%q,\"finish_reason\":null}]}\n\n", text))
}

func (s stream) done(usage string) {
	s.raw(0, `data: {"choices":[{"text":"","finish_reason":"length"}]}`+"\n\n"+`data: {"choices":[],"usage":`+usage+"}\n\ndata: [DONE]\n\n")
}

// asked is what a server reads.
func asked(t *testing.T, q *http.Request) (out questionBody) {
	require.NoError(t, json.NewDecoder(q.Body).Decode(&out))
	return out
}

var words = Dialect{WordTokens: 1}

func traceOf(t *testing.T, lines ...string) *replay.Trace {
	trace, err := replay.Read(t.Context(), write(t, strings.Join(lines, "\n")))
	require.NoError(t, err)
	return trace
}

func silent(Progress) {}

// Requests that are due at 0, 1 and 2 seconds, to a server that needs 100 ms for the first token and 10 ms for each further one.
func TestRunMeasures(t *testing.T) {
	var bodies sync.Map
	served(t, func(w http.ResponseWriter, q *http.Request) {
		asked := asked(t, q)
		bodies.Store(asked.MaxTokens, asked)
		require.Equal(t, []string{"/v1/completions", "Bearer secret-key"}, []string{q.URL.Path, q.Header.Get("Authorization")})
		s := begin(w)
		s.raw(0, ": a comment\r\n\r\n")
		s.text(100*time.Millisecond, "a")
		for range asked.MaxTokens - 1 {
			s.text(10*time.Millisecond, "b")
		}
		s.done(fmt.Sprintf(`{"prompt_tokens":100,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, asked.MaxTokens, asked.MaxTokens))
	}, func(t *testing.T, c *Client) {
		trace := traceOf(t,
			`{"timestamp": 0, "input_length": 1024, "output_length": 11, "hash_ids": [1, 2]}`,
			`{"timestamp": 1000, "input_length": 1024, "output_length": 21, "hash_ids": [1, 3]}`,
			`{"timestamp": 2000, "input_length": 512, "output_length": 31, "hash_ids": [1]}`)
		var last Progress
		r := Run(t.Context(), c, NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 1}, Scale: 1}, words), time.Minute, func(p Progress) { last = p })
		require.Equal(t, 2400*time.Millisecond, r.Elapsed)
		require.Equal(t, 3, last.Done)
		s := Summarize(r, Objective{TTFT: 100 * time.Millisecond, TPOT: 10 * time.Millisecond})
		require.Equal(t, []int{3, 3, 0, 0, 300, 63, 63}, []int{s.Sent, s.Succeeded, s.Failed, s.Unfinished, s.PromptTokens, s.OutputTokens, s.CachedTokens})
		require.True(t, s.CountedByServer && s.HitRateKnown)
		require.InDelta(t, 63./300, s.HitRate, 1e-9)
		require.InDelta(t, 1024./2560, s.PossibleHitRate, 1e-9)
		require.Equal(t, Quantiles{3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, rounded(s.TTFT))
		require.Equal(t, Quantiles{3, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01}, rounded(s.TPOT))
		require.Equal(t, Quantiles{60, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01}, rounded(s.Gap))
		require.Equal(t, Quantiles{3, 0.3, 0.3, 0.4, 0.4, 0.4, 0.4}, rounded(s.Latency))
		require.Equal(t, Quantiles{Count: 3}, s.Late)
		require.Equal(t, 1., s.GoodputShare)
		require.InDelta(t, 3/2.4, s.Goodput, 1e-9)
		require.Zero(t, Summarize(r, Objective{TTFT: 99 * time.Millisecond}).Goodput)
		require.Zero(t, Summarize(r, Objective{TPOT: 9 * time.Millisecond}).Goodput)
	})
	first, _ := bodies.Load(11)
	second, _ := bodies.Load(21)
	third, _ := bodies.Load(31)
	a, b := first.(questionBody).Prompt.(string), second.(questionBody).Prompt.(string)
	require.Len(t, strings.Fields(a), 1024)
	require.Equal(t, strings.Fields(a)[:512], strings.Fields(b)[:512], "the same block is the same text")
	require.NotEqual(t, strings.Fields(a)[512:514], strings.Fields(b)[512:514])
	require.Equal(t, third.(questionBody).Prompt, strings.Join(strings.Fields(a)[:512], " "))
	require.Equal(t, questionBody{Model: "m", Prompt: a, MaxTokens: 11, Stream: true, StreamOptions: map[string]any{"include_usage": true}}, first)
}

// rounded is without what float32 adds.
func rounded(q Quantiles) Quantiles {
	for _, v := range []*float64{&q.Mean, &q.P50, &q.P90, &q.P95, &q.P99, &q.Max} {
		*v = float64(int(*v*1e6+0.5)) / 1e6
	}
	return q
}

// A server must not look good because requests were sent late while it was slow.
func TestRunCountsFromWhenRequestsAreDue(t *testing.T) {
	slow := func(w http.ResponseWriter, q *http.Request) {
		s := begin(w)
		s.text(time.Second, "a")
		s.done("null")
	}
	served(t, slow, func(t *testing.T, c *Client) {
		var lines []string
		for range 9 {
			lines = append(lines, `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}`)
		}
		p := NewPlan(traceOf(t, lines...), Workload{Arrivals: Arrivals{Speed: 1}, Scale: 1}, words)
		p.inFlight = 8
		s := Summarize(Run(t.Context(), c, p, time.Minute, silent), Objective{})
		require.Equal(t, 9, s.Succeeded)
		require.Equal(t, []float64{1, 2}, []float64{s.TTFT.P50, s.TTFT.Max}, "the last had to wait for a place")
		require.Equal(t, []float64{0, 1}, []float64{s.Late.P50, s.Late.Max})
		require.False(t, s.CountedByServer)
		require.False(t, s.HitRateKnown)
	})
}

func TestRunCallers(t *testing.T) {
	var running, most atomic.Int64
	served(t, func(w http.ResponseWriter, q *http.Request) {
		most.Store(max(most.Load(), running.Add(1)))
		defer running.Add(-1)
		s := begin(w)
		s.text(time.Second, "a")
		s.done("null")
	}, func(t *testing.T, c *Client) {
		var lines []string
		for i := range 100 {
			lines = append(lines, fmt.Sprintf(`{"timestamp": %d, "input_length": 1, "output_length": 1, "hash_ids": [1]}`, i))
		}
		w := Workload{Arrivals: Arrivals{Concurrency: 3}, Scale: 1, Duration: 4500 * time.Millisecond}
		r := Run(t.Context(), c, NewPlan(traceOf(t, lines...), w, words), time.Minute, silent)
		require.Len(t, r.Samples, 15, "no request begins after the duration")
		require.Equal(t, 5*time.Second, r.Elapsed)
		s := Summarize(r, Objective{})
		require.Equal(t, 1., s.TTFT.Max)
		require.Zero(t, s.Late.Max)
	})
	require.EqualValues(t, 3, most.Load())
}

func TestRunInterrupted(t *testing.T) {
	served(t, func(w http.ResponseWriter, q *http.Request) {
		s := begin(w)
		s.text(time.Second, "a")
		s.text(time.Second, "b")
		s.done("null")
	}, func(t *testing.T, c *Client) {
		var lines []string
		for i := range 10 {
			lines = append(lines, fmt.Sprintf(`{"timestamp": %d, "input_length": 1, "output_length": 2, "hash_ids": [1]}`, 1000*i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		r := Run(ctx, c, NewPlan(traceOf(t, lines...), Workload{Arrivals: Arrivals{Speed: 1}, Scale: 1}, words), time.Minute, silent)
		s := Summarize(r, Objective{})
		require.Equal(t, []int{4, 2, 0, 2}, []int{s.Sent, s.Succeeded, s.Failed, s.Unfinished})
		require.Equal(t, 3500*time.Millisecond, r.Elapsed)
	})
}

func TestRunChat(t *testing.T) {
	served(t, func(w http.ResponseWriter, q *http.Request) {
		require.Equal(t, "/v1/chat/completions", q.URL.Path)
		asked := asked(t, q)
		require.Len(t, asked.Messages, 1)
		require.Equal(t, "user", asked.Messages[0].Role)
		require.True(t, asked.IgnoreEOS)
		s := begin(w)
		s.raw(time.Second, `data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n")
		s.raw(time.Second, `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}`+"\n\n")
		s.raw(time.Second, `data: {"choices":[{"delta":{"content":"several tokens"}}],"usage":null}`+"\n\n")
		s.done(`{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":null}`)
	}, func(t *testing.T, c *Client) {
		c.IgnoreEOS = true
		trace := traceOf(t, `{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [1]}`)
		r := Run(t.Context(), c, NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 1}, Scale: 1}, Dialect{Chat: true, WordTokens: 1}), time.Minute, silent)
		s := Summarize(r, Objective{})
		require.Equal(t, 2., s.TTFT.Max, "a role alone is no token")
		require.Equal(t, 0.25, s.TPOT.Max, "four tokens after the first, in a second")
		require.False(t, s.HitRateKnown)
	})
}

// The token that ends a text has none. It took time, as it does in the benchmark of vLLM.
func TestRunCountsTheEndOfText(t *testing.T) {
	served(t, func(w http.ResponseWriter, _ *http.Request) {
		s := begin(w)
		s.text(time.Second, "a")
		s.text(time.Second, "b")
		s.raw(time.Second, `data: {"choices":[{"text":"","finish_reason":"stop"}]}`+"\n\n")
		s.raw(time.Second, `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}`+"\n\ndata: [DONE]\n\n")
	}, func(t *testing.T, c *Client) {
		trace := traceOf(t, `{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [1]}`)
		r := Run(t.Context(), c, NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 1}, Scale: 1}, words), time.Minute, silent)
		s := Summarize(r, Objective{})
		require.Equal(t, []float64{1, 1, 1, 4}, []float64{s.TTFT.Max, s.TPOT.Max, s.Gap.Max, s.Latency.Max})
	})
}

// What a server does wrong is said, and ends.
func TestRunFailures(t *testing.T) {
	const fine = `data: {"choices":[{"text":"a"}]}` + "\n\n"
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    ErrRequest
		seconds float64
	}{
		"busy": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":{"message":"too  many"}}`, http.StatusTooManyRequests)
		}, ErrRequest{"http_429", "too many"}, 0},
		"away": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "<p>no\nserver", http.StatusServiceUnavailable)
		}, ErrRequest{"http_503", "<p>no server"}, 0},
		"says key": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"wrong: secret-key"}`, http.StatusUnauthorized)
		}, ErrRequest{"http_401", "wrong: …"}, 0},
		"elsewhere": {func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, "http://other.test/", http.StatusTemporaryRedirect)
		}, ErrRequest{"http_307", ""}, 0},
		"no stream": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
		}, ErrRequest{ContentType, `"application/json" instead of text/event-stream`}, 0},
		"hangs":             {func(w http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, ErrRequest{Timeout, ""}, 60},
		"hangs in a stream": {func(w http.ResponseWriter, q *http.Request) { begin(w).raw(0, fine); <-q.Context().Done() }, ErrRequest{Timeout, ""}, 60},
		"ends early":        {func(w http.ResponseWriter, _ *http.Request) { begin(w).raw(0, fine) }, ErrRequest{Broken, "the stream ended before the answer"}, 0},
		"says nothing":      {func(w http.ResponseWriter, _ *http.Request) { begin(w).raw(0, "data: {}\n\ndata: [DONE]\n\n") }, ErrRequest{Broken, "the stream has no answer"}, 0},
		"breaks":            {func(w http.ResponseWriter, _ *http.Request) { begin(w).raw(0, fine); panic(http.ErrAbortHandler) }, ErrRequest{Broken, "the connection ended in the middle of the stream"}, 0},
		"breaks at once":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ErrRequest{Connection, "EOF"}, 0},
		"no JSON":           {func(w http.ResponseWriter, _ *http.Request) { begin(w).raw(0, "data: {\"choices\":\n\n") }, ErrRequest{Malformed, "unexpected end of JSON input"}, 0},
		"another JSON":      {func(w http.ResponseWriter, _ *http.Request) { begin(w).raw(0, "data: [1]\n\n") }, ErrRequest{Malformed, "json: cannot unmarshal array into Go value of type load.chunk"}, 0},
		"error in a stream": {func(w http.ResponseWriter, _ *http.Request) {
			begin(w).raw(0, fine+`data: {"error":{"message":"full"}}`+"\n\n")
		}, ErrRequest{Reported, "full"}, 0},
		"event of an error": {func(w http.ResponseWriter, _ *http.Request) { begin(w).raw(0, "event: error\ndata: full\n\n") }, ErrRequest{Reported, "full"}, 0},
		"endless line": {func(w http.ResponseWriter, q *http.Request) {
			begin(w)
			for q.Context().Err() == nil {
				w.Write(bytes.Repeat([]byte("x"), 1<<16))
			}
		}, ErrRequest{TooLarge, "a line has no end"}, 0},
		"endless event": {func(w http.ResponseWriter, q *http.Request) {
			begin(w)
			for q.Context().Err() == nil {
				io.WriteString(w, "data: "+strings.Repeat("x", 1<<16)+"\n")
			}
		}, ErrRequest{TooLarge, "an event has no end"}, 0},
		"endless stream": {func(w http.ResponseWriter, q *http.Request) {
			begin(w)
			for q.Context().Err() == nil {
				io.WriteString(w, ": "+strings.Repeat("x", 1<<18)+"\n")
			}
		}, ErrRequest{TooLarge, "the stream has no end"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			served(t, c.handler, func(t *testing.T, client *Client) {
				trace := traceOf(t, `{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [1]}`)
				r := Run(t.Context(), client, NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 1}, Scale: 1}, words), time.Minute, silent)
				require.Len(t, r.Samples, 1)
				got := ErrRequest{r.Samples[0].Kind, r.Samples[0].Detail}
				require.Equal(t, c.want, got)
				require.Equal(t, c.seconds, r.Elapsed.Seconds())
				s := Summarize(r, Objective{})
				require.Equal(t, []Failures{{got.Kind, 1, got.Detail}}, s.Failures)
				require.Zero(t, s.GoodputShare)
			})
		})
	}
}

// After [DONE] the answer is whole, whatever the connection does; a stream without [DONE] ends with its last event.
func TestRunEnds(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"hangs": func(w http.ResponseWriter, q *http.Request) {
			s := begin(w)
			s.text(time.Second, "a")
			s.done("null")
			<-q.Context().Done()
		},
		"no mark": func(w http.ResponseWriter, q *http.Request) {
			begin(w).raw(time.Second, "data:{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}]}\r\n")
		},
		"no text but an end": func(w http.ResponseWriter, q *http.Request) {
			begin(w).raw(time.Second, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]")
		},
		"many lines": func(w http.ResponseWriter, q *http.Request) {
			begin(w).raw(time.Second, "id: 1\ndata: {\"choices\":\ndata: [{\"text\":\"a\"}]}\n\ndata: [DONE]\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			served(t, handler, func(t *testing.T, c *Client) {
				trace := traceOf(t, `{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [1]}`)
				r := Run(t.Context(), c, NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 1}, Scale: 1}, words), time.Minute, silent)
				require.Len(t, r.Samples, 1)
				x := r.Samples[0]
				require.Equal(t, []any{Kind(""), 1., 1.}, []any{x.Kind, x.TTFT(), x.Latency()}, x.Detail)
			})
		})
	}
}
