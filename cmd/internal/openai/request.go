// Package openai reads requests, and has the shapes of answers, of the part of OpenAI's API that a cache needs. What would change an answer and is not here
// is refused with the name of the field.
package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
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
	r.Settings.Temperature, r.Settings.TopP = 1, 1
	most := "" // the field that MaxTokens is from
	err = fields(body, "", func(name, path string, value []byte) error {
		null := string(value) == "null"
		switch {
		case name == "prompt" && !ofChat:
			return r.prompt(value)
		case name == "messages" && ofChat:
			return r.conversation(value)
		case slices.Contains(free, name):
			return nil
		case name == "max_tokens" || name == "max_completion_tokens" && ofChat:
			if null {
				return nil
			}
			if most != "" {
				return bad(path, "%s says it too", most)
			}
			most = name
			return atLeast(1, path, value, &r.Settings.MaxTokens)
		}
		switch name {
		case "model":
			return read(path, value, &r.Model)
		case "temperature":
			return r.number(path, value, &r.Settings.Temperature, 0, 2)
		case "top_p":
			if err := r.number(path, value, &r.Settings.TopP, 0, 1); err != nil || r.Settings.TopP > 0 {
				return err
			}
			return bad(path, "it must be more than 0; temperature 0 takes the likeliest token")
		case "seed":
			var seed *int64
			if err := read(path, value, &seed); err != nil || seed == nil {
				return err
			}
			unsigned := uint64(*seed)
			r.Settings.Seed = &unsigned
			return nil
		case "stop":
			return r.stops(value)
		case "stream":
			return read(path, value, &r.Stream)
		case "stream_options":
			return r.streamOptions(value)
		case "cache_salt":
			return r.salted(value)
		}
		return refused(name, path, value)
	})
	switch {
	case err != nil:
	case ofChat && len(r.Messages) == 0:
		err = bad("messages", "it must have at least one message")
	case !ofChat && len(r.Texts)+len(r.Tokens) == 0:
		err = bad("prompt", "it must be a string, a list of strings, or tokens")
	case !ofChat:
		r.Settings.Usual = 16
	}
	return r, err
}

// refused refuses a field, unless it is known and has the value that changes nothing.
func refused(name, path string, value []byte) error {
	usual, known := fixed[name]
	var given any
	switch _ = json.Unmarshal(value, &given); {
	case !known:
		return bad(path, "this server does not have this field")
	case given == nil || reflect.DeepEqual(given, usual):
		return nil
	case usual == nil:
		return bad(path, "this server does not have it; leave it out")
	}
	only, _ := json.Marshal(usual)
	return bad(path, "this server does not have it; leave it out, or say %s", only)
}

func (r *Request) number(path string, value []byte, to *float64, least, most float64) error {
	if err := read(path, value, to); err != nil || *to >= least && *to <= most {
		return err
	}
	return bad(path, "it must be %v to %v", least, most)
}

func atLeast(least int, path string, value []byte, to *int) error {
	if err := read(path, value, to); err != nil || *to >= least {
		return err
	}
	return bad(path, "it must be at least %d", least)
}

// prompt reads a string, a list of strings, tokens, or a list of tokens.
func (r *Request) prompt(value []byte) (err error) {
	inside := bytes.TrimLeft(bytes.TrimPrefix(value, []byte("[")), " \t\r\n")
	switch {
	case value[0] == '"':
		r.Texts = make([]string, 1)
		err = read("prompt", value, &r.Texts[0])
	case value[0] != '[':
		return bad("prompt", "it must be a string, a list of strings, or tokens")
	case inside[0] == '"':
		r.Texts, err = list[string]("prompt", value)
	case inside[0] == '[':
		var all []json.RawMessage
		err = read("prompt", value, &all)
		for i := 0; err == nil && i < len(all); i++ {
			var tokens []uint32
			tokens, err = list[uint32](fmt.Sprintf("prompt[%d]", i), all[i])
			r.Tokens = append(r.Tokens, tokens)
		}
	default:
		r.Tokens = make([][]uint32, 1)
		r.Tokens[0], err = list[uint32]("prompt", value)
	}
	if n := len(r.Texts) + len(r.Tokens); err == nil && n > maxPrompts {
		err = bad("prompt", "it has %d prompts; at most %d are accepted", n, maxPrompts)
	}
	return err
}

func (r *Request) stops(value []byte) (err error) {
	if value[0] == '"' {
		r.Settings.Stop = make([]string, 1)
		err = read("stop", value, &r.Settings.Stop[0])
	} else {
		r.Settings.Stop, err = list[string]("stop", value)
	}
	if err == nil && len(r.Settings.Stop) > maxStops {
		err = bad("stop", "it has %d strings; at most %d are accepted", len(r.Settings.Stop), maxStops)
	}
	for _, stop := range r.Settings.Stop {
		if err == nil && (stop == "" || len(stop) > maxStop) {
			err = bad("stop", "a string has %d bytes; 1 to %d are accepted", len(stop), maxStop)
		}
	}
	return err
}

func (r *Request) salted(value []byte) error {
	var salt *string
	if json.Unmarshal(value, &salt) != nil {
		return bad("cache_salt", "it must be a string")
	}
	if salt == nil {
		return nil
	}
	if r.Salt = []byte(*salt); len(r.Salt) == 0 || len(r.Salt) > maxSalt {
		return bad("cache_salt", "it has %d bytes; 1 to %d are accepted", len(r.Salt), maxSalt)
	}
	return nil
}

func (r *Request) streamOptions(value []byte) error {
	if string(value) == "null" {
		return nil
	}
	return fields(value, "stream_options.", func(name, path string, value []byte) error {
		switch name {
		case "include_usage":
			return read(path, value, &r.Usage)
		case "include_obfuscation": // of the lengths of chunks, which a client must not rely on
			return nil
		}
		return bad(path, "this server does not have this field")
	})
}
