package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/schedule"
	"github.com/stretchr/testify/require"
)

// 64 streams at a time, whose clients vanish at any moment: each answer that ends is the one that is computed alone, and nothing is left in the cache, which
// has room for a part of them.
func TestClientsVanish(t *testing.T) {
	t.Run("device", func(t *testing.T) { testVanish(t, "") })
	t.Run("disk", func(t *testing.T) { testVanish(t, t.TempDir()) })
}

func testVanish(t *testing.T, disk string) {
	lasts := 2 * time.Second
	switch {
	case testsize.Full():
		lasts = 2 * time.Minute
	case testing.Short():
		lasts = time.Second / 2
	}
	r := newRig(t, rigOptions{disk: disk, memory: kvcache.Memory{MaxSeqs: 8, Capacity: 256, Blocks: 48}, engine: serving.Options{Schedule: schedule.Options{MaxWaiting: 64, StepTokens: 64}}})
	n := length(60)
	var prompts, alone []string
	for i := range 12 {
		c := golden(t)[i%3]
		prompt := strings.Repeat(c.Prompt+". ", 1+i/3) + strings.Repeat("x", i)
		prompts, alone = append(prompts, prompt), append(alone, at(r.complete(prompt, n), "choices.0.text").(string))
	}
	end := time.Now().Add(lasts)
	var all sync.WaitGroup
	var mu sync.Mutex
	whole, vanished := 0, 0
	for client := range 64 {
		rng := rand.New(rand.NewPCG(7, uint64(client)))
		all.Go(func() {
			for time.Now().Before(end) {
				i := rng.IntN(len(prompts))
				ctx, cancel := context.WithCancel(t.Context())
				if rng.IntN(3) > 0 {
					time.AfterFunc(time.Duration(rng.ExpFloat64()*float64(300*time.Millisecond)), cancel)
				}
				text, err := r.stream(ctx, prompts[i], n)
				cancel()
				mu.Lock()
				if err == nil {
					whole++
				} else {
					vanished++
				}
				mu.Unlock()
				if err == nil && text != alone[i] {
					t.Errorf("prompt %d: %q, alone %q", i, text, alone[i])
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d answers, %d clients that vanished", whole, vanished)
	require.Positive(t, whole)
	require.Positive(t, vanished)
	eventually(t, func() bool {
		stats, err := r.runner.Pool().Stats()
		return err == nil && stats.Held == 0
	})
}

// stream is the text of a stream; an error where the client left before its end.
func (r *rig) stream(ctx context.Context, prompt string, n int) (text string, err error) {
	body := object{"prompt": prompt, "max_tokens": n, "temperature": 0, "stream": true}
	a, err := http.DefaultClient.Do(request(r, r.url+completions, body).WithContext(ctx))
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	data, err := io.ReadAll(a.Body)
	if err != nil {
		return "", err
	}
	if a.StatusCode != http.StatusOK || !strings.HasSuffix(string(data), "data: [DONE]\n\n") {
		return "", fmt.Errorf("status %d: %s", a.StatusCode, data)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(data), "data: [DONE]\n\n"), "\n") {
		if chunk, is := strings.CutPrefix(line, "data: "); is {
			text += at(decoded(r, chunk), "choices.0.text").(string)
		}
	}
	return text, nil
}

// A full queue refuses; a server that drains does, too, and the answers that it has end.
func TestQueueAndDrain(t *testing.T) {
	r := newRig(t, rigOptions{memory: kvcache.Memory{MaxSeqs: 1}, engine: serving.Options{Schedule: schedule.Options{MaxWaiting: 1}}})
	var open []*bufio.Reader
	for range 2 { // one is computed, one waits
		a, err := http.DefaultClient.Do(request(t, r.url+"/v1/chat/completions", object{"messages": []object{say("user", "Once upon a time")}, "stream": true, "temperature": 0}))
		require.NoError(t, err)
		defer a.Body.Close()
		lines := bufio.NewReader(a.Body)
		for range []int{3, 1}[len(open)] { // the role, which comes at once, and of the first one a token
			_, err = lines.ReadString('\n')
			require.NoError(t, err)
		}
		open = append(open, lines)
	}
	for _, want := range []struct {
		status int
		code   string
	}{{http.StatusTooManyRequests, "queue_full"}, {http.StatusServiceUnavailable, "draining"}} {
		status, _, text := do(t, request(t, r.url+completions, object{"prompt": "x", "max_tokens": 1}))
		require.Equal(t, want.status, status)
		require.Equal(t, want.code, at(decoded(t, text), "error.code"))
		r.engine.Drain()
	}
	for _, lines := range open {
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(string(rest), "data: [DONE]\n\n"))
		require.Contains(t, string(rest), `"finish_reason":"stop"`)
	}
	<-r.ended
}

// A prompt that leaves no room is refused with the numbers, and so is one of several prompts, whose others end.
func TestContext(t *testing.T) {
	r := newRig(t, rigOptions{memory: kvcache.Memory{Capacity: 64}})
	for _, c := range []struct {
		body any
		want string
	}{
		{object{"prompt": strings.Repeat("x", 63)}, "the context is 64 tokens, and the prompt has 64: shorten it, so that there is room for an answer"},
		{object{"prompt": []string{"a", strings.Repeat("x", 60)}, "max_tokens": 4}, "the context is 64 tokens, and the prompt has 61 and the answer up to 4"},
		{object{"prompt": []int{1, 70000}}, "token 1 of the prompt is 70000: the vocabulary has 259"},
		{object{"prompt": []int{}}, "the prompt has no tokens"},
	} {
		status, _, text := do(t, request(t, r.url+completions, c.body))
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, at(decoded(t, text), "error.message"), c.want)
		require.Equal(t, "prompt", at(decoded(t, text), "error.param"))
	}
	require.Equal(t, 64., at(r.post(completions, object{"prompt": strings.Repeat("x", 58)}), "usage.total_tokens"), "less than 16 tokens")
	a := r.post("/v1/chat/completions", object{"messages": []object{say("user", "Once")}, "temperature": 0})
	require.Equal(t, 64., at(a, "usage.total_tokens"), "up to the context")
	require.Equal(t, "length", at(a, "choices.0.finish_reason"))
	status, _, text := do(t, request(t, r.url+"/v1/chat/completions", object{"messages": []object{say("user", strings.Repeat("x", 64))}}))
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "context_length_exceeded", at(decoded(t, text), "error.code"))
	require.Equal(t, "messages", at(decoded(t, text), "error.param"))
}

// The metrics have what routers read.
func TestMetrics(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.complete("Once upon a time", 4)
	get := request(t, r.url+"/metrics", "")
	get.Method = http.MethodGet
	status, header, text := do(t, get)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, header.Get("Content-Type"), "text/plain; version=0.0.4")
	for _, line := range []string{"vllm:kv_cache_usage_perc 0", "vllm:num_requests_running 0", "vllm:num_requests_waiting 0", "vllm:generation_tokens_total 4", `vllm:request_success_total{finished_reason="length"} 1`} {
		require.Contains(t, text, "\n"+line+"\n")
	}
	require.Regexp(t, `\nvllm:cache_config_info\{.*block_size="16".*\} 1\n`, text)
}
