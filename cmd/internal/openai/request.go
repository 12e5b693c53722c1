// Package openai reads requests, and has the shapes of answers, of the part of OpenAI's API that a cache needs. What would change an answer and is not here
// is refused with the name of the field.
package openai

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
)

// Limits of a request.
const (
	maxPrompts = 32
	maxStops   = 4
	maxStop    = 256 // bytes
	maxSalt    = 1024
)

// Request is what a client asks for.
type Request struct {
	Model    string
	Texts    []string   // prompts
	Tokens   [][]uint32 // or these
	Messages []chat.Message
	Settings serving.Settings
	Salt     []byte
	Stream   bool
	Usage    bool // in a last chunk of the stream
}

// free are fields that change no answer.
var free = []string{"user", "metadata", "safety_identifier", "prompt_cache_key"}

// fixed are fields of OpenAI's API that would change an answer, with the value that does not.
var fixed = map[string]any{
	"n": 1., "best_of": 1., "echo": false, "suffix": nil, "logprobs": false, "top_logprobs": 0., "logit_bias": map[string]any{},
	"frequency_penalty": 0., "presence_penalty": 0., "tools": []any{}, "tool_choice": "none", "parallel_tool_calls": true, "functions": []any{}, "function_call": "none",
	"response_format": map[string]any{"type": "text"}, "modalities": []any{"text"}, "audio": nil, "prediction": nil, "reasoning_effort": nil, "verbosity": nil,
	"service_tier": "auto", "store": false, "web_search_options": nil,
}

// Parse reads the body of a request, for a conversation or a text. Errors are Error.
func Parse(body []byte, ofChat bool) (r Request, err error) {
	if err := valid(body); err != nil {
		return r, err
	}
	s := &r.Settings
	s.Temperature, s.TopP = 1, 1
	var (
		salt   string
		seed   *int64
		stop   stops
		answer int // max_completion_tokens
	)
	positive := func(n int) bool { return n > 0 }
	takers := map[string]taker{
		"model":          value(&r.Model, "a string", nil),
		"temperature":    value(&s.Temperature, "a number, 0 to 2", func(v float64) bool { return v >= 0 && v <= 2 }),
		"top_p":          value(&s.TopP, "a number, more than 0 and at most 1; temperature 0 takes the likeliest token", func(v float64) bool { return v > 0 && v <= 1 }),
		"max_tokens":     value(&s.MaxTokens, "an integer, at least 1", positive),
		"seed":           value(&seed, "an integer of 64 bits with a sign", nil),
		"stop":           value(&stop, fmt.Sprintf("a string, or a list of at most %d, of 1 to %d bytes each", maxStops, maxStop), stops.fit),
		"stream":         value(&r.Stream, "true or false", nil),
		"stream_options": r.streamOptions,
		"cache_salt":     value(&salt, fmt.Sprintf("a string of 1 to %d bytes", maxSalt), func(salt string) bool { return salt != "" && len(salt) <= maxSalt }),
	}
	for _, name := range free {
		takers[name] = ignored
	}
	for name, usual := range fixed {
		takers[name] = only(usual)
	}
	needed := "prompt"
	if ofChat {
		needed = "messages"
		takers["max_completion_tokens"] = value(&answer, "an integer, at least 1", positive)
		takers["messages"] = func(path string, data []byte) error { return each(path, data, "a list of messages", r.message) }
	} else {
		takers["prompt"] = r.prompt
		s.Usual = 16
	}
	err = object("", body, takers, needed)
	s.Stop = stop
	if seed != nil {
		s.Seed = new(uint64)
		*s.Seed = uint64(*seed)
	}
	if salt != "" {
		r.Salt = []byte(salt)
	}
	switch {
	case err != nil:
	case answer > 0 && s.MaxTokens > 0:
		err = bad("max_completion_tokens", "max_tokens says it too")
	case len(r.Texts)+len(r.Tokens)+len(r.Messages) == 0:
		err = bad(needed, "it must have at least one")
	}
	s.MaxTokens += answer
	return r, err
}

func (r *Request) streamOptions(path string, data []byte) error {
	// include_obfuscation is of the lengths of chunks, which a client must not rely on
	return object(path, data, map[string]taker{"include_usage": value(&r.Usage, "true or false", nil), "include_obfuscation": ignored})
}

var prompts = fmt.Sprintf("a string, a list of strings, tokens, or a list of tokens, at most %d", maxPrompts)

func (r *Request) prompt(path string, data []byte) error {
	var text string
	var texts list[string]
	var tokens list[uint32]
	var all list[list[uint32]]
	switch {
	case json.Unmarshal(data, &text) == nil:
		r.Texts = []string{text}
	case json.Unmarshal(data, &tokens) == nil:
		r.Tokens = [][]uint32{tokens}
	case json.Unmarshal(data, &texts) == nil && len(texts) <= maxPrompts:
		r.Texts = texts
	case json.Unmarshal(data, &all) == nil && len(all) <= maxPrompts:
		for _, tokens := range all {
			r.Tokens = append(r.Tokens, tokens)
		}
	default:
		return bad(path, "it must be %s", prompts)
	}
	return nil
}

// stops are one string, or a list of them.
type stops []string

func (s *stops) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		*s = make(stops, 1)
		return json.Unmarshal(data, &(*s)[0])
	}
	return json.Unmarshal(data, (*list[string])(s))
}

func (s stops) fit() bool {
	return len(s) <= maxStops && !slices.ContainsFunc(s, func(stop string) bool { return stop == "" || len(stop) > maxStop })
}
