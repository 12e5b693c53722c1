package openai

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/stretchr/testify/require"
)

// said is a body with more fields than it needs.
func said(more string) string { return `{"prompt":"x",` + more + `}` }

// spoken is one of a conversation.
func spoken(more string) string { return `{"messages":[{"role":"user","content":"x"}],` + more + `}` }

func TestParse(t *testing.T) {
	seed := ^uint64(0)
	all := `"model":"m","temperature":0.5,"top_p":0.25,"max_tokens":7,"seed":-1,"stop":["a","b"],"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"cache_salt":"s"`
	want := Request{Model: "m", Settings: serving.Settings{Temperature: 0.5, TopP: 0.25, MaxTokens: 7, Seed: &seed, Stop: []string{"a", "b"}}, Salt: []byte("s"), Stream: true, Usage: true}
	r, err := Parse([]byte(said(all)), false)
	require.NoError(t, err)
	want.Texts, want.Settings.Usual = []string{"x"}, 16
	require.Equal(t, want, r)
	r, err = Parse([]byte(spoken(strings.Replace(all, "max_tokens", "max_completion_tokens", 1))), true)
	require.NoError(t, err)
	want.Settings.Usual = 0
	want.Texts, want.Messages = nil, []chat.Message{{Role: "user", Content: "x"}}
	require.Equal(t, want, r)

	usual := serving.Settings{Temperature: 1, TopP: 1, Usual: 16}
	nothing := `"model":null,"temperature":null,"top_p":null,"max_tokens":null,"seed":null,"stop":null,"stream":null,"stream_options":null,"cache_salt":null`
	for _, body := range []string{`{"prompt":"x"}`, said(nothing)} {
		r, err = Parse([]byte(body), false)
		require.NoError(t, err)
		require.Equal(t, Request{Texts: []string{"x"}, Settings: usual}, r)
	}
	usual.Usual = 0
	r, err = Parse([]byte(spoken(nothing+`,"max_completion_tokens":null`)), true)
	require.NoError(t, err)
	require.Equal(t, usual, r.Settings)
}

func TestPrompts(t *testing.T) {
	for body, want := range map[string]Request{
		`"a\u00e9"`:        {Texts: []string{"aé"}},
		`""`:               {Texts: []string{""}},
		`["a", "b"]`:       {Texts: []string{"a", "b"}},
		`[ 1,2]`:           {Tokens: [][]uint32{{1, 2}}},
		"[\n[1], [2, 3 ]]": {Tokens: [][]uint32{{1}, {2, 3}}},
	} {
		r, err := Parse([]byte(`{"prompt":`+body+`}`), false)
		require.NoError(t, err, body)
		require.Equal(t, want.Texts, r.Texts)
		require.Equal(t, want.Tokens, r.Tokens)
	}
}

// What changes no answer is taken, in messages, too.
func TestTaken(t *testing.T) {
	for _, field := range []string{`"user":"u"`, `"metadata":{"a":"b"}`, `"n":1`, `"n":1.0`, `"n":null`, `"frequency_penalty":0`, `"presence_penalty":0.0`, `"logprobs":false`, `"logprobs":null`,
		`"logit_bias":{}`, `"echo":false`, `"best_of":1`, `"suffix":null`, `"response_format":{"type":"text"}`, `"tools":[]`, `"tool_choice":"none"`, `"parallel_tool_calls":true`, `"store":false`} {
		for _, body := range []string{said(field), spoken(field)} {
			_, err := Parse([]byte(body), strings.Contains(body, "messages"))
			require.NoError(t, err, body)
		}
	}
	for _, field := range []string{`"tool_calls":[ ]`, `"tool_calls":null`, `"name":null`, `"refusal":"r"`, `"reasoning_content":"t"`} {
		_, err := Parse([]byte(`{"messages":[{"role":"user","content":"x",`+field+`}]}`), true)
		require.NoError(t, err, field)
	}
}

// A refusal names the field.
func TestRefusals(t *testing.T) {
	message := func(text string) string { return `{"messages":[{"role":"user","content":"x"},` + text + `]}` }
	for _, c := range []struct{ body, field, why string }{
		{``, "", "not JSON"}, {`{`, "", "not JSON: byte 1"}, {`[]`, "", "must be an object"}, {`null`, "", "must be an object"}, {"{\"prompt\":\"\xff\"}", "", "not UTF-8"},
		{`{"prompt":"x"} {}`, "", "not JSON: byte 16"}, {`{"prompt":"x",}`, "", "not JSON"}, {strings.Repeat("[", 20000), "", "not JSON"},
		{`{}`, "prompt", "missing"}, {`{"prompt":null}`, "prompt", "missing"}, {`{"prompt":7}`, "prompt", "must be"}, {`{"prompt":{}}`, "prompt", "must be"},
		{`{"prompt":["a",1]}`, "prompt", "a list of tokens"}, {`{"prompt":["a",null]}`, "prompt", "a list of tokens"}, {`{"prompt":[1,null]}`, "prompt", "a list of tokens"}, {`{"prompt":[1,-1]}`, "prompt", "a list of tokens"},
		{`{"prompt":[1,1.5]}`, "prompt", "a list of tokens"}, {`{"prompt":[1,4294967296]}`, "prompt", "a list of tokens"}, {`{"prompt":[[1],["a"]]}`, "prompt", "a list of tokens"},
		{`{"prompt":[true]}`, "prompt", "a list of tokens"}, {`{"prompt":[` + strings.Repeat(`"a",`, maxPrompts) + `"a"]}`, "prompt", "at most 32"},
		{`{"prompt":"x","prompt":"y"}`, "prompt", "twice"}, {said(`"stream":false,"stream":false`), "stream", "twice"}, {said(`"user":"a","user":"a"`), "user", "twice"},
		{said(`"Stream":true`), "Stream", "does not have"}, {said(`"top_k":1`), "top_k", "does not have"}, {said(`"top_k":null`), "top_k", "does not have"}, {said(`"messages":[]`), "messages", "does not have"},
		{said(`"model":7`), "model", "must be a string"}, {said(`"temperature":-0.1`), "temperature", "0 to 2"}, {said(`"temperature":2.1`), "temperature", "0 to 2"}, {said(`"temperature":"1"`), "temperature", "must be a number"},
		{said(`"temperature":1e999`), "temperature", "must be a number"}, {said(`"top_p":0`), "top_p", "more than 0"}, {said(`"top_p":1.1`), "top_p", "at most 1"},
		{said(`"max_tokens":0`), "max_tokens", "at least 1"}, {said(`"max_tokens":1.5`), "max_tokens", "must be an integer"}, {said(`"max_tokens":"1"`), "max_tokens", "must be an integer"},
		{said(`"max_completion_tokens":1`), "max_completion_tokens", "does not have"}, {spoken(`"max_tokens":1,"max_completion_tokens":1`), "max_completion_tokens", "max_tokens says it too"},
		{said(`"seed":1.5`), "seed", "must be an integer"}, {said(`"seed":9223372036854775808`), "seed", "must be an integer"}, {said(`"stream":1`), "stream", "must be true or false"},
		{said(`"stop":""`), "stop", "1 to 256"}, {said(`"stop":["a",""]`), "stop", "1 to 256"}, {said(`"stop":["1","2","3","4","5"]`), "stop", "at most 4"}, {said(`"stop":7`), "stop", "a list of"},
		{said(`"stop":"` + strings.Repeat("a", 257) + `"`), "stop", "1 to 256"}, {said(`"stop":[null]`), "stop", "a list of"},
		{said(`"cache_salt":""`), "cache_salt", "1 to 1024"}, {said(`"cache_salt":7`), "cache_salt", "must be a string"}, {said(`"cache_salt":"` + strings.Repeat("a", 1025) + `"`), "cache_salt", "1 to 1024"},
		{said(`"stream_options":true`), "stream_options", "must be an object"}, {said(`"stream_options":{"x":1}`), "stream_options.x", "does not have"}, {said(`"stream_options":{"include_usage":1}`), "stream_options.include_usage", "true or false"},
		{said(`"n":2`), "n", "or say 1"}, {said(`"best_of":2`), "best_of", "or say 1"}, {said(`"echo":true`), "echo", "or say false"}, {said(`"logprobs":1`), "logprobs", "or say false"}, {said(`"logprobs":0`), "logprobs", "or say false"},
		{said(`"suffix":"a"`), "suffix", "leave it out"}, {said(`"logit_bias":{"1":2}`), "logit_bias", "or say {}"}, {said(`"frequency_penalty":0.1`), "frequency_penalty", "or say 0"},
		{spoken(`"tools":[{}]`), "tools", "or say []"}, {spoken(`"tool_choice":"auto"`), "tool_choice", `or say "none"`}, {spoken(`"response_format":{"type":"json_object"}`), "response_format", `or say {"type":"text"}`},
		{spoken(`"top_logprobs":2`), "top_logprobs", "or say 0"}, {spoken(`"reasoning_effort":"low"`), "reasoning_effort", "leave it out"}, {spoken(`"prompt":"x"`), "prompt", "does not have"},
		{`{"messages":null}`, "messages", "missing"}, {`{"messages":[]}`, "messages", "at least one"}, {`{"messages":"x"}`, "messages", "list of messages"}, {`{"messages":["x"]}`, "messages[0]", "must be an object"},
		{message(`{"content":"x"}`), "messages[1].role", "missing"}, {message(`{"role":"tool","content":"x"}`), "messages[1].role", "must be system"}, {message(`{"role":1,"content":"x"}`), "messages[1].role", "must be system"},
		{message(`{"role":"user"}`), "messages[1].content", "missing"}, {message(`{"role":"user","content":null}`), "messages[1].content", "missing"}, {message(`{"role":"user","content":1}`), "messages[1].content", "must be a string"},
		{message(`{"role":"user","content":"x","name":"n"}`), "messages[1].name", "does not have"}, {message(`{"role":"assistant","content":"x","tool_calls":[{}]}`), "messages[1].tool_calls", "does not have"},
		{message(`{"role":"user","content":"x","content":"x"}`), "messages[1].content", "twice"}, {message(`{"role":"user","content":[{"type":"image_url"}]}`), "messages[1].content[0].type", "only parts of type text"},
		{message(`{"role":"user","content":[{"text":"x"}]}`), "messages[1].content[0].type", "missing"}, {message(`{"role":"user","content":[{"type":"text","x":1}]}`), "messages[1].content[0].x", "does not have"},
		{said(`"n":1e400`), "n", "or say 1"}, {said(`"tools":[1e400]`), "tools", "or say []"}, {said(`"":1`), `""`, "does not have"}, {`7`, "", "it must be an object"},
		{said(`"` + strings.Repeat("x", 10_000) + `":1`), `"` + strings.Repeat("x", 16) + `"`, "does not have"}, {said(`"stop":{}`), "stop", "a string, or a list of"},
		{message(`{"role":"user","content":[{"type":"text"}]}`), "messages[1].content[0].text", "missing"}, {message(`{"role":"user","content":[{"type":"text","text":null}]}`), "messages[1].content[0].text", "missing"},
		{message(`{"role":"user","content":["x"]}`), "messages[1].content[0]", "must be an object"},
	} {
		_, err := Parse([]byte(c.body), strings.HasPrefix(c.body, `{"messages"`))
		var e Error
		require.ErrorAs(t, err, &e, c.body)
		require.Equal(t, http.StatusBadRequest, e.Status)
		require.Equal(t, c.field, e.Param, c.body)
		require.Contains(t, e.Message, c.why, c.body)
	}
}

// Whatever comes, a request is read within the limits, or refused as one.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"prompt":[[1,2],[3]],"stop":["a"],"seed":1}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stream_options":{"include_usage":true}}`,
		said(`"n":1,"cache_salt":"s","temperature":0`), `{"prompt":[],"prompt":null}`, "{\"\\u0070rompt\":\"\\ud800\"}"} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, ofChat bool) {
		r, err := Parse(body, ofChat)
		if err != nil {
			var e Error
			require.True(t, errors.As(err, &e) && e.Status == http.StatusBadRequest, err)
			return
		}
		s := r.Settings
		require.True(t, ofChat && len(r.Messages) > 0 && r.Texts == nil && r.Tokens == nil || !ofChat && r.Messages == nil && len(r.Texts)+len(r.Tokens) > 0)
		require.True(t, len(r.Texts)+len(r.Tokens) <= maxPrompts && len(s.Stop) <= maxStops && len(r.Salt) <= maxSalt)
		require.True(t, s.MaxTokens >= 0 && s.Temperature >= 0 && s.Temperature <= 2 && s.TopP > 0 && s.TopP <= 1)
		require.NotContains(t, s.Stop, "")
		for _, m := range r.Messages {
			require.Contains(t, []string{"system", "user", "assistant"}, m.Role)
		}
	})
}
