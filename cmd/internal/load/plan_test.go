package load

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func write(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func generated(t *testing.T) *replay.Trace {
	s := replay.DefaultSynthesis
	s.Requests = 200
	trace, err := replay.Synthetic(t.Context(), s)
	require.NoError(t, err)
	return trace
}

// The same settings make the same requests, byte by byte, and another seed makes others.
func TestPlanIsDetermined(t *testing.T) {
	trace := generated(t)
	w := Workload{Arrivals: Arrivals{Rate: 5}, Scale: 0.1, MaxPrompt: 300, MaxOutput: 100, Seed: 7}
	for _, d := range []Dialect{{WordTokens: 1.7, Overhead: 11}, {Vocabulary: 1000}} {
		a, b := NewPlan(trace, w, d), NewPlan(trace, w, d)
		other := w
		other.Seed++
		c := NewPlan(trace, other, d)
		require.Equal(t, a.requests, b.requests)
		for i := range a.requests {
			require.Equal(t, a.prompt(i), b.prompt(i))
			require.NotEqual(t, a.prompt(i), c.prompt(i))
			require.NotEqual(t, a.requests[i].due, c.requests[i].due)
			require.LessOrEqual(t, a.requests[i].output, 100)
		}
	}
}

// Two prompts begin with the same pieces exactly where the trace has the same blocks, and what is counted as shared is so.
func TestPromptsShareWhatTheTraceShares(t *testing.T) {
	trace := generated(t)
	rapid.Check(t, func(r *rapid.T) {
		w := Workload{Arrivals: Arrivals{Speed: 1}, Scale: rapid.SampledFrom([]float64{0.002, 0.03, 0.1, 0.37, 1}).Draw(r, "scale"),
			MaxPrompt: rapid.SampledFrom([]int{0, 40, 1000}).Draw(r, "max"), Seed: rapid.Uint64().Draw(r, "seed"), Requests: 60}
		d := rapid.SampledFrom([]Dialect{{WordTokens: 1}, {WordTokens: 5.02, Overhead: 3}, {Vocabulary: 50_000}}).Draw(r, "dialect")
		p := NewPlan(trace, w, d)
		var before [][]string
		for i, q := range p.requests {
			prompt := fields(p.prompt(i))
			require.Len(r, prompt, q.units)
			tokens := float64(q.units)*p.prompts.dialect.WordTokens + p.prompts.dialect.Overhead
			require.LessOrEqual(r, tokens, max(float64(trace.Tokens(i))*w.Scale+1, p.prompts.dialect.WordTokens+p.prompts.dialect.Overhead))
			if w.MaxPrompt > 0 {
				require.LessOrEqual(r, tokens, float64(w.MaxPrompt))
			}
			known := 0
			for _, other := range before {
				n := 0
				for n < min(len(other), len(prompt)) && other[n] == prompt[n] {
					n++
				}
				known = max(known, n)
			}
			require.GreaterOrEqual(r, known, q.shared, "request %d", i)
			if len(before) > 0 {
				require.Less(r, float64(known-q.shared), 2*p.prompts.size+2, "no more is in common than a piece that is not whole, and one that is equal by chance")
			}
			before = append(before, prompt)
		}
	})
}

// fields are the units of a prompt.
func fields(prompt any) []string {
	if text, ok := prompt.(string); ok {
		return strings.Fields(text)
	}
	return strings.Fields(strings.Trim(fmt.Sprint(prompt), "[]"))
}

func TestPlanArrivals(t *testing.T) {
	trace := traceOf(t,
		`{"timestamp": 5000, "input_length": 512, "output_length": 0, "hash_ids": [1]}`,
		`{"timestamp": 7000, "input_length": 512, "output_length": 3, "hash_ids": [1]}`,
		`{"timestamp": 1e300, "input_length": 512, "output_length": 3, "hash_ids": [1]}`)
	p := NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 4}, Scale: 1}, words)
	require.Equal(t, []time.Duration{0, 500 * time.Millisecond, farthest * time.Second}, []time.Duration{p.requests[0].due, p.requests[1].due, p.requests[2].due})
	require.Equal(t, []int{unknownOutput, 3}, []int{p.requests[0].output, p.requests[1].output})
	require.Equal(t, 2, NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 4}, Scale: 1, Duration: time.Second}, words).Requests())
	require.Equal(t, 1, NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 4}, Scale: 1, Requests: 1}, words).Requests())

	rate := NewPlan(generated(t), Workload{Arrivals: Arrivals{Rate: 20}, Scale: 1, Seed: 3}, words)
	require.True(t, slices.IsSortedFunc(rate.requests, func(a, b request) int { return int(a.due - b.due) }))
	require.InDelta(t, 10, rate.requests[199].due.Seconds(), 3, "200 requests at 20 a second")
}

// A trace whose lengths no machine has makes prompts of a size that one has.
func TestPromptsAreBounded(t *testing.T) {
	trace := traceOf(t, `{"timestamp": 0, "input_length": 9223372036854775807, "output_length": 9223372036854775807, "hash_ids": [1]}`)
	p := NewPlan(trace, Workload{Arrivals: Arrivals{Speed: 1}, Scale: 1e9}, words)
	require.Equal(t, mostTokens, p.requests[0].units)
}

func TestCalibrate(t *testing.T) {
	var counts bool
	handler := func(w http.ResponseWriter, q *http.Request) {
		n := len(strings.Fields(asked(t, q).Prompt.(string)))
		s := begin(w)
		s.text(0, "a")
		if counts {
			s.done(fmt.Sprintf(`{"prompt_tokens":%d}`, 7+5*n/2))
		} else {
			s.done("null")
		}
	}
	served(t, handler, func(t *testing.T, c *Client) {
		d, counted, err := Calibrate(t.Context(), c, Dialect{}, 1)
		require.NoError(t, err)
		require.False(t, counted)
		require.Equal(t, Dialect{WordTokens: guessedWordTokens}, d)
		counts = true
		d, counted, err = Calibrate(t.Context(), c, Dialect{}, 1)
		require.NoError(t, err)
		require.True(t, counted)
		require.Equal(t, Dialect{WordTokens: 2.5, Overhead: 7}, d)
		d, _, err = Calibrate(t.Context(), c, Dialect{Vocabulary: 9}, 1)
		require.NoError(t, err)
		require.Equal(t, Dialect{Vocabulary: 9}, d)
	})
	served(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusNotFound) }, func(t *testing.T, c *Client) {
		_, _, err := Calibrate(t.Context(), c, Dialect{}, 1)
		require.Equal(t, ErrRequest{"http_404", "no"}, err)
	})
}
