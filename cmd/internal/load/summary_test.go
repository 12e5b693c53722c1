package load

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The 90 % quantile is the least value that at least 90 % of the values do not exceed.
func TestQuantiles(t *testing.T) {
	require.Zero(t, quantilesOf(nil))
	rapid.Check(t, func(r *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 300).Draw(r, "values")
		naive := func(percent int) float64 {
			best := -1.0
			for _, v := range values {
				n := 0
				for _, other := range values {
					if other <= v {
						n++
					}
				}
				if n*100 >= percent*len(values) && (best < 0 || v < best) {
					best = v
				}
			}
			return best
		}
		want := [...]float64{naive(50), naive(90), naive(95), naive(99), naive(100)}
		q := quantilesOf(values)
		require.Equal(r, want, [...]float64{q.P50, q.P90, q.P95, q.P99, q.Max})
		require.Equal(r, len(values), q.Count)
	})
}

func TestObjective(t *testing.T) {
	for text, want := range map[string]Objective{
		"ttft=500ms,tpot=50ms":  {500 * time.Millisecond, 50 * time.Millisecond},
		"tpot=50ms, ttft=0.5s ": {500 * time.Millisecond, 50 * time.Millisecond},
		"ttft=1s":               {TTFT: time.Second},
		"tpot=7ms":              {TPOT: 7 * time.Millisecond},
	} {
		o, err := ParseObjective(text)
		require.NoError(t, err, text)
		require.Equal(t, want, o)
		again, err := ParseObjective(o.String())
		require.NoError(t, err)
		require.Equal(t, o, again)
	}
	for _, text := range []string{"", "ttft", "ttft=5", "ttft=-1s", "ttft=0s", "e2e=1s", "ttft=1s,ttft=2s", "ttft=1s,"} {
		_, err := ParseObjective(text)
		require.ErrorContains(t, err, "accepts times such as ttft=500ms,tpot=50ms", text)
	}
}

// vLLM says nothing of prompts of which nothing was cached.
func TestHitRate(t *testing.T) {
	r := Result{Samples: []Sample{{Prompt: 100, Cached: -1}, {Prompt: 100, Cached: 50}, {Prompt: 50, Cached: 50, Kind: Broken}}, Elapsed: time.Second}
	s := Summarize(r, Objective{})
	require.Equal(t, []any{true, 0.25, 1}, []any{s.HitRateKnown, s.HitRate, s.Failed})
	require.False(t, Summarize(Result{Samples: r.Samples[:1]}, Objective{}).HitRateKnown)
}

// An account that cannot be is none.
func TestUsage(t *testing.T) {
	of := func(n int) *struct {
		Cached *int `json:"cached_tokens"`
	} {
		return &struct {
			Cached *int `json:"cached_tokens"`
		}{&n}
	}
	for _, c := range []struct {
		usage usage
		want  [3]int
	}{
		{usage{}, [3]int{0, 0, -1}},
		{usage{Prompt: 9, Completion: 2, Details: of(9)}, [3]int{9, 2, 9}},
		{usage{Prompt: 9, Completion: 2, Details: of(10)}, [3]int{9, 2, -1}},
		{usage{Prompt: -9, Completion: 1 << 40, Details: of(-1)}, [3]int{0, 0, -1}},
	} {
		prompt, output, cached := c.usage.counts()
		require.Equal(t, c.want, [3]int{prompt, output, cached})
	}
}

func TestClientURL(t *testing.T) {
	for server, want := range map[string]string{"http://127.0.0.1:8080": "http://127.0.0.1:8080", "https://a.test/v1/": "https://a.test", "http://a.test/x/v1": "http://a.test/x"} {
		c, err := NewClient(server)
		require.NoError(t, err)
		require.Equal(t, want, c.Base())
	}
	for _, server := range []string{"", "127.0.0.1:8080", "ftp://a.test", "http://", "http://u:p@a.test", "http://a.test?key=1", "http://a.test#x"} {
		_, err := NewClient(server)
		require.Error(t, err, server)
	}
}

func TestClientExposed(t *testing.T) {
	for server, want := range map[string]bool{"http://127.0.0.1:8080": false, "http://[::1]:80": false, "http://localhost": false, "https://a.test": false,
		"http://a.test": true, "http://10.0.0.1": true, "http://localhost.a.test": true} {
		c, err := NewClient(server)
		require.NoError(t, err)
		require.Equal(t, want, c.Exposed(), server)
	}
}

func TestFirstModel(t *testing.T) {
	for body, want := range map[string]string{`{"data":[{"id":"x"},{"id":"y"}]}`: "x", `{"data":[]}`: "malformed: /v1/models lists no model", `{`: "malformed: /v1/models: unexpected end of JSON input",
		`{"data":"` + strings.Repeat("x", 2*maxReply): "malformed: /v1/models: unexpected end of JSON input"} {
		served(t, func(w http.ResponseWriter, q *http.Request) {
			require.Equal(t, "/v1/models", q.URL.Path)
			w.Write([]byte(body))
		}, func(t *testing.T, c *Client) {
			name, err := c.FirstModel(t.Context())
			if err != nil {
				name = err.Error()
			}
			require.Equal(t, want, name)
		})
	}
}
