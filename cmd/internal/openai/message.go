package openai

import (
	"encoding/json"
	"fmt"

	"github.com/ferrumkv/ferrumkv/cmd/internal/chat"
)

// roles are those of clients, as templates have them.
var roles = map[string]string{"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

// conversation reads messages.
func (r *Request) conversation(value []byte) error {
	var all []json.RawMessage
	if json.Unmarshal(value, &all) != nil {
		return bad("messages", "it must be a list of messages")
	}
	for i, one := range all {
		path := fmt.Sprintf("messages[%d]", i)
		m, err := message(path, one)
		if err != nil {
			return err
		}
		r.Messages = append(r.Messages, m)
	}
	return nil
}

// message reads a message. That of an assistant may have what this server adds to answers: what the model thought is in the server's memory, or is not used.
func message(path string, value []byte) (m chat.Message, err error) {
	said := false
	err = fields(value, path+".", func(name, path string, value []byte) error {
		switch name {
		case "role":
			if err := read(path, value, &m.Role); err != nil {
				return err
			}
			if m.Role = roles[m.Role]; m.Role == "" {
				return bad(path, "it must be system, developer, user or assistant")
			}
			return nil
		case "content":
			said = string(value) != "null"
			m.Content, err = content(path, value)
			return err
		case "reasoning_content", "refusal", "annotations":
			return nil
		case "tool_calls":
			if string(value) == "[]" {
				return nil
			}
		}
		if string(value) == "null" {
			return nil
		}
		return bad(path, "this server does not have this field")
	})
	switch {
	case err != nil:
	case m.Role == "":
		err = bad(path+".role", "it is missing")
	case !said:
		err = bad(path+".content", "it must be a string, or a list of parts of type text")
	}
	return m, err
}

// content reads a text, or parts that make one.
func content(path string, value []byte) (text string, err error) {
	if value[0] != '[' {
		return text, read(path, value, &text)
	}
	var parts []json.RawMessage
	if err := read(path, value, &parts); err != nil {
		return "", err
	}
	for i, part := range parts {
		var kind, more string
		err := fields(part, fmt.Sprintf("%s[%d].", path, i), func(name, path string, value []byte) error {
			switch name {
			case "type":
				if err := read(path, value, &kind); err != nil || kind == "text" {
					return err
				}
				return bad(path, "only parts of type text are accepted")
			case "text":
				return read(path, value, &more)
			}
			return bad(path, "this server does not have this field")
		})
		if err == nil && kind == "" {
			err = bad(fmt.Sprintf("%s[%d].type", path, i), "it is missing")
		}
		if err != nil {
			return "", err
		}
		text += more
	}
	return text, nil
}
