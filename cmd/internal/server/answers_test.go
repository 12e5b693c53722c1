package server

import (
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/stretchr/testify/require"
)

// length is how many tokens texts have: less where the race detector makes them slow.
func length(n int) int {
	if race.Enabled {
		return n / 4
	}
	return n
}

// A completion is the text of the model, and a second one finds its prompt.
func TestCompletion(t *testing.T) {
	r := newRig(t, rigOptions{})
	first, n := golden(t)[0], length(80)
	a := r.complete(first.Prompt, n)
	require.Equal(t, first.Text[:n], at(a, "choices.0.text"))
	require.Equal(t, "length", at(a, "choices.0.finish_reason"))
	require.Equal(t, "text_completion", a["object"])
	require.Equal(t, "story", a["model"])
	require.Regexp(t, "^cmpl-", a["id"])
	require.Equal(t, object{"prompt_tokens": 17., "completion_tokens": float64(n), "total_tokens": 17. + float64(n), "prompt_tokens_details": object{"cached_tokens": 0.}}, a["usage"])
	again := r.complete(first.Prompt, n)
	require.Equal(t, first.Text[:n], at(again, "choices.0.text"))
	require.Equal(t, 16., at(again, "usage.prompt_tokens_details.cached_tokens"))
	require.Equal(t, 16., float64(len(at(r.complete(first.Prompt, 16, object{"max_tokens": nil}), "choices.0.text").(string))), "by default")
	eventually(t, func() bool { return strings.Count(r.log.String(), "msg=request") == 3 })
	require.Regexp(t, `prompt=17 cached=16 computed=1 tokens=\d+ reason=length queued=\S+ prefill=\S+ decode=\S+\n`, r.log.String())
	require.NotContains(t, r.log.String(), "Once upon")
}

// Prompts of one request are choices by index, as texts and as tokens, which rendering gives.
func TestPrompts(t *testing.T) {
	r := newRig(t, rigOptions{})
	var prompts []string
	for _, c := range golden(t) {
		prompts = append(prompts, c.Prompt)
	}
	_, _, text := do(t, request(t, r.url+"/v1/completions/render", object{"prompt": prompts}))
	rendered := decoded(t, `{"all":`+text+`}`)["all"].([]any)
	require.Len(t, rendered, len(prompts))
	var tokens []any
	for _, one := range rendered {
		tokens = append(tokens, at(one, "token_ids"))
	}
	n := length(40)
	for _, prompt := range []any{prompts, tokens} {
		a := r.complete(prompt, n)
		require.Len(t, a["choices"], len(prompts))
		for i, c := range golden(t) {
			require.Equal(t, float64(i), at(a["choices"].([]any)[i], "index"))
			require.Equal(t, c.Text[:n], at(a["choices"].([]any)[i], "text"))
		}
		require.Equal(t, float64(n*len(prompts)), at(a, "usage.completion_tokens"))
	}
	require.Equal(t, golden(t)[0].Text[:n], at(r.complete(tokens[0], n), "choices.0.text"))

	streamed := make([]string, len(prompts))
	all := r.chunks("/v1/completions", object{"prompt": prompts, "max_tokens": n, "temperature": 0, "stream": true, "stream_options": object{"include_usage": true}})
	for _, c := range all[:len(all)-1] {
		require.Nil(t, c["usage"])
		streamed[int(at(c, "choices.0.index").(float64))] += at(c, "choices.0.text").(string)
	}
	for i, c := range golden(t) {
		require.Equal(t, c.Text[:n], streamed[i])
	}
	require.Empty(t, all[len(all)-1]["choices"])
	require.Equal(t, float64(n*len(prompts)), at(all[len(all)-1], "usage.completion_tokens"))
}

// A stop string ends a text before it, however the tokens cut it, streamed or not.
func TestStops(t *testing.T) {
	r := newRig(t, rigOptions{})
	first := golden(t)[0]
	for _, stop := range []any{first.Text[9:21], []string{"nowhere", first.Text[9:21], first.Text[12:30]}} {
		body := object{"prompt": first.Prompt, "max_tokens": 60, "temperature": 0, "stop": stop}
		a := r.post("/v1/completions", body)
		require.Equal(t, first.Text[:9], at(a, "choices.0.text"))
		require.Equal(t, "stop", at(a, "choices.0.finish_reason"))
		require.Equal(t, 21., at(a, "usage.completion_tokens"), "the stop string was computed")
		body["stream"] = true
		text, all := "", r.chunks("/v1/completions", body)
		for _, c := range all {
			text += at(c, "choices.0.text").(string)
		}
		require.Equal(t, first.Text[:9], text)
		require.Equal(t, "stop", at(all[len(all)-1], "choices.0.finish_reason"))
	}
	a := r.complete(first.Prompt, 12, object{"stop": first.Text[9:21]})
	require.Equal(t, first.Text[:12], at(a, "choices.0.text"), "what may begin a stop string is there when the text ends")
}

// A seed gives a text, however often; without one it is another each time.
func TestSeeds(t *testing.T) {
	r := newRig(t, rigOptions{})
	sample := func(more object) string {
		body := object{"prompt": "Once", "max_tokens": 60, "temperature": 2}
		for k, v := range more {
			body[k] = v
		}
		return at(r.post("/v1/completions", body), "choices.0.text").(string)
	}
	text := sample(object{"seed": -7})
	require.Equal(t, text, sample(object{"seed": -7}))
	require.NotEqual(t, text, sample(object{"seed": 8}))
	require.NotEqual(t, text, sample(nil))
	require.Equal(t, sample(object{"temperature": 0}), sample(object{"top_p": 1e-9}), "the likeliest token alone")
}

// The bytes of a character are one piece of a stream, and those that are a part of none are replacement characters.
func TestWholeCharacters(t *testing.T) {
	r := newRig(t, rigOptions{})
	body, odd := object{"prompt": "Once", "max_tokens": 200, "temperature": 2}, false
	for seed := 0; !odd; seed++ {
		require.Less(t, seed, 100)
		body["seed"], body["stream"] = seed, false
		text := at(r.post("/v1/completions", body), "choices.0.text").(string)
		odd = strings.Contains(text, "\uFFFD")
		streamed := ""
		body["stream"] = true
		for _, c := range r.chunks("/v1/completions", body) {
			streamed += at(c, "choices.0.text").(string)
		}
		require.Equal(t, text, streamed)
	}
}

// What one salt computed is not found with another one, nor without.
func TestSalts(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, c := range []struct {
		salt   any
		cached float64
	}{{nil, 0}, {"a", 0}, {"b", 0}, {"a", 40}, {nil, 40}, {"b", 40}} {
		a := r.complete(strings.Repeat("The dog ", 5), 4, object{"cache_salt": c.salt})
		require.Equal(t, c.cached, at(a, "usage.prompt_tokens_details.cached_tokens"), "%v", c.salt)
	}
	eventually(t, func() bool { return strings.Count(r.log.String(), "msg=request") == 6 })
	require.NotContains(t, r.log.String(), "salt")
}
