package openai

import (
	"encoding/json"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
)

// roles are those of clients, as templates have them.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

// message reads a message. That of an assistant may have what this server adds to answers: what the model thought is in the server's memory, or is not used.
func (r *Request) message(path string, data []byte) error {
	var role, text string
	part := func(path string, data []byte) error {
		var kind, more string
		err := object(path, data, map[string]taker{
			"type": value(&kind, "text: only parts of type text are accepted", func(kind string) bool { return kind == "text" }),
			"text": value(&more, "a string", nil),
		}, "type", "text")
		text += more
		return err
	}
	err := object(path, data, map[string]taker{
		"role": value(&role, "system, developer, user or assistant", func(role string) bool { return roles[role] != "" }),
		"content": func(path string, data []byte) error {
			if data[0] == '"' {
				return json.Unmarshal(data, &text)
			}
			return each(path, data, "a string, or a list of parts of type text", part)
		},
		"reasoning_content": ignored, "refusal": ignored, "annotations": ignored,
		"tool_calls": only([]any{}), "function_call": only(nil), "audio": only(nil), "name": only(nil), "tool_call_id": only(nil),
	}, "role", "content")
	r.Messages = append(r.Messages, chat.Message{Role: roles[role], Content: text})
	return err
}
