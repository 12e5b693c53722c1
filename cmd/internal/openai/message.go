package openai

import "github.com/ferrumkv/ferrumkv/cmd/internal/chat"

// roles are those of clients, as templates have them.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

// message reads a message. That of an assistant may have what this server adds to answers: what the model thought is in the server's memory, or is not used.
func (r *Request) message(path string, data []byte) error {
	role, said, text := "", false, ""
	content := func(path string, data []byte) error {
		said = true
		if data[0] == '"' {
			return value(&text, "a string", nil)(path, data)
		}
		return each(path, data, "a string, or a list of parts of type text", func(path string, data []byte) error {
			part, err := textPart(path, data)
			text += part
			return err
		})
	}
	err := object(path, data, map[string]taker{
		"role":    value(&role, "system, developer, user or assistant", func(role string) bool { return roles[role] != "" }),
		"content": content, "reasoning_content": ignored, "refusal": ignored, "annotations": ignored,
		"tool_calls": only([]any{}), "function_call": only(nil), "audio": only(nil), "name": only(nil), "tool_call_id": only(nil),
	})
	switch {
	case err != nil:
		return err
	case role == "":
		return bad(path+".role", "it is missing")
	case !said:
		return bad(path+".content", "it is missing: it must be a string, or a list of parts of type text")
	}
	r.Messages = append(r.Messages, chat.Message{Role: roles[role], Content: text})
	return nil
}

// textPart reads a part of a message.
func textPart(path string, data []byte) (string, error) {
	var kind string
	var text *string
	err := object(path, data, map[string]taker{
		"type": value(&kind, "text: only parts of type text are accepted", func(kind string) bool { return kind == "text" }),
		"text": value(&text, "a string", nil),
	})
	switch {
	case err != nil:
		return "", err
	case kind == "":
		return "", bad(path+".type", "it is missing")
	case text == nil:
		return "", bad(path+".text", "it is missing")
	}
	return *text, nil
}
