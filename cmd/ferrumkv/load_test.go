package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/load"
	"github.com/stretchr/testify/require"
)

// llm is a server that answers at once, with as many tokens as were asked for. Each word is three tokens, and each prompt has two besides.
type llm struct {
	asked atomic.Int64
	key   string          // that it wants
	mute  bool            // it counts nothing
	hits  bool            // it says what was cached: half of each prompt
	fails map[int64]int   // the status of some requests
	holds <-chan struct{} // until when answers are held, after calibration
}

func (l *llm) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	n := l.asked.Add(1)
	switch {
	case l.key != "" && q.Header.Get("Authorization") != "Bearer "+l.key:
		http.Error(w, `{"error":{"message":"not `+q.Header.Get("Authorization")+`"}}`, http.StatusUnauthorized)
		return
	case q.URL.Path == "/v1/models":
		io.WriteString(w, `{"data":[{"id":"tiny"}]}`)
		return
	case l.fails[n] != 0:
		http.Error(w, `{"error":{"message":"slow down"}}`, l.fails[n])
		return
	}
	var asked struct {
		Prompt string
		Tokens int `json:"max_tokens"`
	}
	if err := json.NewDecoder(q.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if l.holds != nil && n > 3 {
		<-l.holds
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for range asked.Tokens {
		io.WriteString(w, "data: {\"choices\":[{\"text\":\"x\"}]}\n\n")
	}
	tokens := 3*len(strings.Fields(asked.Prompt)) + 2
	details := "null"
	if l.hits {
		details = fmt.Sprintf(`{"cached_tokens":%d}`, tokens/2)
	}
	if l.mute {
		io.WriteString(w, "data: [DONE]\n\n")
		return
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"prompt_tokens_details\":%s}}\n\ndata: [DONE]\n\n", tokens, asked.Tokens, details)
}

func listens(t *testing.T, l *llm) string {
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	return s.URL
}

// measured are times and rates, which differ from run to run.
var measured = regexp.MustCompile(` +[\d.e+]+ (µs|ms|s)\b| [\d.e+]+ (requests|prompt tokens|output tokens)/s`)

func TestLoadTable(t *testing.T) {
	url, path := listens(t, &llm{hits: true, fails: map[int64]int{6: 429}}), writeTrace(t, "small.jsonl")
	r := succeeds(t, "load", "--url", url, "--trace", path, "--speed", "1000", "--scale", "0.1", "--objective", "ttft=1h")
	require.Empty(t, r.stderr)
	require.Equal(t, `trace       `+path+`, 5 requests
server      `+url+`, model tiny, completions
prompts     words of 3.00 tokens, 0.1 of the trace's lengths
arrivals    of the trace, 1000 times as fast
requests    5 in TIME: 4 succeeded, 1 failed
errors      1 http_429: slow down
tokens      N of prompts, 4 of answers
rates       TIME, TIME, TIME
hit rate    N%; N% possible for a cache that begins empty
goodput     TIME, 80.00%, with ttft=1h0m0s

time                 mean        p50        p90        p95        p99        max
first token TIME TIME TIME TIME TIME TIME
per token               -          -          -          -          -          -
between texts           -          -          -          -          -          -
whole answer TIME TIME TIME TIME TIME TIME
sent late TIME TIME TIME TIME TIME TIME
`, regexp.MustCompile(`\d+ of prompts`).ReplaceAllString(regexp.MustCompile(`[\d.]+%; [\d.]+%`).ReplaceAllString(
		strings.ReplaceAll(measured.ReplaceAllString(r.stdout, " TIME"), ":  TIME", ": TIME"), "N%; N%"), "N of prompts"))
}

func TestLoadJSON(t *testing.T) {
	url := listens(t, &llm{hits: true})
	args := []string{"load", "--json", "--url", url, "--concurrency", "2", "--requests", "20", "--scale", "0.1", "--max-prompt", "200", "--max-tokens", "8", "--seed", "3"}
	lines := jsonLines(t, succeeds(t, args...).stdout)
	require.Len(t, lines, 1)
	row := lines[0]
	for name, want := range map[string]any{
		"trace": "synthetic", "server": url, "model": "tiny", "endpoint": "completions", "word_tokens": 3., "scale": 0.1, "max_prompt": 200., "max_tokens": 8.,
		"concurrency": 2., "seed": 3., "objective": "ttft=500ms,tpot=50ms", "planned": 20., "requests": 20., "succeeded": 20., "failed": 0., "unfinished": 0.,
		"errors": []any{}, "output_tokens": 160., "output_counted": "server",
	} {
		require.Equal(t, want, row[name], name)
	}
	require.Equal(t, version(), row["program"])
	began, err := time.Parse(time.RFC3339, row["began"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), began, time.Minute)
	require.InDelta(t, 0.5, row["hit_rate"], 0.02)
	require.Greater(t, row["possible_hit_rate"], 0.)
	require.Equal(t, 140., row["gap"].(map[string]any)["count"])
	require.NotContains(t, row, "rate")
	require.NotContains(t, row, "speed")
	again := jsonLines(t, succeeds(t, args...).stdout)[0]
	require.Equal(t, []any{row["prompt_tokens"], row["possible_hit_rate"]}, []any{again["prompt_tokens"], again["possible_hit_rate"]})

	row = jsonLines(t, succeeds(t, "load", "--json", "--url", listens(t, &llm{}), "--rate", "1000", "--requests", "3", "--scale", "0.1").stdout)[0]
	require.Nil(t, row["hit_rate"])
	require.Contains(t, row, "hit_rate", "unknown, not left out")
}

// A generated trace does not end before the run.
func TestLoadDuration(t *testing.T) {
	url := listens(t, &llm{})
	for _, arrivals := range [][]string{{"--rate", "1500"}, {"--concurrency", "8"}} {
		args := append([]string{"load", "--json", "--url", url, "--duration", "1s", "--scale", "0.01", "--max-tokens", "1"}, arrivals...)
		row := jsonLines(t, succeeds(t, args...).stdout)[0]
		require.Greater(t, row["planned"], 1300., arrivals)
		require.Greater(t, row["seconds"], 0.9, arrivals)
	}
}

// A server that counts nothing is measured, and what is not known is not made up.
func TestLoadUncounted(t *testing.T) {
	r := succeeds(t, "load", "--url", listens(t, &llm{mute: true}), "--rate", "1000", "--requests", "3", "--scale", "0.1", "--max-tokens", "4")
	for _, want := range []string{
		"prompts     words of 2.00 tokens, a guess: the server does not count tokens, 0.1 of",
		"tokens      0 of prompts, 12 of answers; the server does not count those of prompts; of some answers pieces of text, for the server does not count\n",
		"hit rate    not reported by this server; ",
	} {
		require.Contains(t, r.stdout, want)
	}
}

func TestLoadPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	url, path := listens(t, &llm{hits: true, fails: map[int64]int{6: 503}}), writeTrace(t, "a <b> & 'c'.jsonl")
	succeeds(t, "load", "--url", url, "--trace", path, "--speed", "100", "--html", file)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	html := strings.ReplaceAll(string(data), url, "")
	require.Contains(t, html, "a &lt;b&gt; &amp; &#39;c&#39;.jsonl")
	require.NotRegexp(t, `https?:|<script|@import|url\(|(src|href)=|ZgotmplZ|NaN|Inf`, html, "it needs no network and no script")
	require.Contains(t, html, "prefers-color-scheme: dark")
	plots := regexp.MustCompile(`(?s)<svg class="plot".*?</svg>`).FindAllString(html, -1)
	require.Len(t, plots, 4)
	require.Equal(t, 5, strings.Count(plots[2], "<circle"), "a dot for each request")
	require.Contains(t, plots[2], "http_503")
	for _, plot := range plots {
		d := xml.NewDecoder(strings.NewReader(plot))
		for err == nil {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF, "well formed")
		err = nil
	}
}

// A run of which nothing is known has a page, too.
func TestLoadPageOfNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.html")
	r := &loadReport{result: load.Result{Samples: []load.Sample{{Kind: load.Refused, Cached: -1}}}}
	require.NoError(t, r.writePage(file))
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotRegexp(t, `NaN|Inf`, string(data))
}

func TestLoadBadFlags(t *testing.T) {
	path := writeTrace(t, "small.jsonl")
	for _, c := range []struct{ args, want string }{
		{"", "--trace: say what is sent"},
		{"--rate 1 --concurrency 1", "--concurrency: requests come at a --rate or from callers; leave one out"},
		{"--request-rate 1", "(did you mean --rate?)"},
		{"--rate 0", "--rate: accepts more than 0 to 10000"},
		{"--rate NaN", "--rate: accepts more than 0 to 10000"},
		{"--concurrency 0", "--concurrency: accepts 1 to 10000"},
		{"--rate 1 --speed 2", "--speed: is for a trace's times"},
		{"--rate 1 --scale 0", "--scale: accepts more than 0 to 1000"},
		{"--rate 1 --requests 0", "--requests: need more than 0"},
		{"--rate 1 --duration -1s", "--duration: need more than 0"},
		{"--rate 1 --max-prompt 0", "--max-prompt: need more than 0"},
		{"--rate 1 --max-tokens -1", "--max-tokens: need more than 0"},
		{"--rate 1 --timeout 0s", "--timeout: need more than 0"},
		{"--rate 1 --objective fast", "--objective fast: accepts times such as ttft=500ms,tpot=50ms"},
		{"--rate 1 --token-ids 1", "--token-ids 1: accepts 2 to 2147483647"},
		{"--rate 1 --token-ids 9 --chat", "--token-ids: messages are text; leave it out, or --chat"},
		{"--rate 1 --url http://user:password@x.test", "--url: accepts no user, query or fragment in the URL"},
		{"--rate 1 --api-key-env NO_SUCH_VARIABLE", "--api-key-env NO_SUCH_VARIABLE: is not set"},
		{"--rate 1 --api-key-file no/such", "--api-key-file: open no/such: no such file"},
		{"--rate 1 --html no/such/dir/page.html", "there is no directory no/such/dir"},
		{"--rate 1 --turns 0", "--turns 0: accepts 1 to 1000000"},
		{"--trace " + path + " --turns 3", "--turns: is for the generated trace; leave it out, or --trace"},
		{"--trace no/such/file", "no/such/file: no such file or directory"},
		{"--rate 1 --url http://127.0.0.1:1", "http://127.0.0.1:1: /v1/models: refused: "},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := fails(t, append([]string{"load"}, strings.Fields(c.args)...), c.want)
			require.NotContains(t, r.stderr, "password")
			require.Empty(t, r.stdout)
		})
	}
}

// The key is sent, and shown nowhere, not even where the server repeats it.
func TestLoadKey(t *testing.T) {
	url := listens(t, &llm{key: "sk-right"})
	args := []string{"load", "--url", url, "--rate", "1000", "--requests", "2", "--scale", "0.1"}
	t.Setenv(envClientKey, "sk-right")
	require.NotContains(t, succeeds(t, args...).stdout, "sk-right")
	t.Setenv(envClientKey, "sk-wrong")
	require.NotContains(t, fails(t, args, "http_401: not Bearer …").stderr, "sk-wrong")
	t.Setenv("OTHER_KEY", "sk-right")
	succeeds(t, append(args, "--api-key-env", "OTHER_KEY")...)
	succeeds(t, append(args, "--api-key-file", file(t, "key", "sk-right\n"))...)
	fails(t, append(args, "--api-key-file", file(t, "key", "a\nb")), "need the key alone, in a line")
	fails(t, append(args, "--api-key-file", "x", "--api-key-env", "y"), "--api-key-file: one key is sent; leave it out, or --api-key-env")

	cmd := newLoad()
	var stderr strings.Builder
	cmd.SetErr(&stderr)
	c, err := loadServerFlags{url: "http://far.test", keyEnv: envClientKey}.client(cmd)
	require.NoError(t, err)
	require.Empty(t, c.Key)
	require.Equal(t, "note: the key of OPENAI_API_KEY is not sent, because it would go unencrypted to another machine; --api-key-env OPENAI_API_KEY sends it\n", stderr.String())
	c, err = loadServerFlags{url: "https://far.test", keyEnv: envClientKey}.client(cmd)
	require.NoError(t, err)
	require.Equal(t, "sk-wrong", c.Key)
}

// What was measured until Ctrl-C is reported.
func TestLoadInterrupted(t *testing.T) {
	held := make(chan struct{})
	l := &llm{holds: held}
	url := listens(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer close(held)
	go func() {
		for l.asked.Load() < 5 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"load", "--url", url, "--concurrency", "2", "--scale", "0.1"}, &stdout, &stderr))
	require.Contains(t, stdout.String(), ": 0 succeeded, 0 failed, 2 without a whole answer at the end\n")
	require.Equal(t, "ferrumkv: interrupted\n", stderr.String())
}

func TestLoadAllFail(t *testing.T) {
	url := listens(t, &llm{fails: map[int64]int{4: 503, 5: 503}})
	r := fails(t, []string{"load", "--url", url, "--rate", "1000", "--requests", "2", "--scale", "0.1"}, "no request succeeded: http_503: slow down")
	require.Contains(t, r.stdout, "errors      2 http_503: slow down\n")
}

func TestLoadRunBar(t *testing.T) {
	var shown strings.Builder
	b := runBar{line: &progress{out: &shown}, total: 10, duration: time.Minute}
	b.show(load.Progress{Elapsed: 30 * time.Second, Running: 2, Done: 3, Failed: 1})
	require.Equal(t, "\r[###############...............]  50% 2 running, 3 done, 1 failed", shown.String())
}

func TestAxes(t *testing.T) {
	a := countAxis(7, 0, 100)
	require.Equal(t, []float64{0, 2, 4, 6, 8, 10}, a.marks)
	require.Equal(t, []float64{0, 70, 100}, []float64{a.at(-1), a.at(7), a.at(99)})
	require.Equal(t, 5., countAxis(5, 0, 1).high)
	b := timesAxis([]float64{0, 0.02, 0.4}, 0, 100)
	require.InDeltaSlice(t, []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}, b.marks, 1e-9)
	require.Equal(t, []float64{0, 50, 100}, []float64{b.at(0), b.at(0.1), b.at(2)})
	require.Len(t, timesAxis([]float64{0.002, 0.4}, 0, 100).marks, 4, "decades alone, where there are three")
	require.Equal(t, 1e-3, timesAxis(nil, 0, 1).low)
	var bins [chartBins]float64
	timeline{axis{}, 1}.add(&bins, 0.5, 2.25)
	require.Equal(t, []float64{0.5, 1, 0.25, 0}, bins[:4])
}

func TestMoment(t *testing.T) {
	for at, want := range map[float64]string{0: "0s", 0.25: "250ms", 40: "40s", 60: "1m", 90: "1m30s", 600: "10m", 3600: "1h", 3605: "1h5s", 4200: "1h10m"} {
		require.Equal(t, want, moment(at))
	}
}
