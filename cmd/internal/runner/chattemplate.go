package runner

import (
	"cmp"
	"encoding/json"
	"path"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
)

// ChatTemplate is the template (Jinja) that makes a conversation the text that the model at a path of Load was trained on, and the texts of
// its tokens BOS and EOS, which templates name. Each is "" where the model has none: many models do not chat.
// Of several templates it is the one that is named default, else the first.
func ChatTemplate(name string) (template, bos, eos string, err error) {
	d := &disk{}
	defer func() { err = cmp.Or(err, d.close()) }()
	defer faulted(name, &err)()
	defer caught(&err)
	switch name = find(d, filepath.ToSlash(name)); form(d, name) {
	case ".gguf":
		meta, _ := parseGGUF(openWeights(d, name))
		meta.specials()
		return get(meta, "tokenizer.chat_template", ""), meta.piece("bos_token_id"), meta.piece("eos_token_id"), nil
	case ".bin":
		return "", "", "", nil
	}
	name = path.Dir(name)
	if file := path.Join(name, "chat_template.jinja"); there(d, file) {
		template = string(open(d, file).data)
	}
	for _, part := range []string{"tokenizer_config.json", "special_tokens_map.json", "chat_template.json"} { // newest first
		if part = path.Join(name, part); there(d, part) {
			c, err := parseChat(open(d, part))
			if template == "" { // else what is in it is not needed
				check(err)
			}
			template, bos, eos = cmp.Or(template, string(c.Template)), cmp.Or(bos, string(c.BOS)), cmp.Or(eos, string(c.EOS))
		}
	}
	return template, bos, eos, nil
}

// piece is the text of a special token in the vocabulary of a GGUF file.
func (s *settings) piece(key string) string {
	const tokens = "tokenizer.ggml.tokens"
	id := append(s.tokens(key), NoToken)[0]
	if id == NoToken || s.values[tokens] == nil {
		return ""
	}
	all := s.vocabulary()
	field, _ := s.lookup(key)
	s.need(uint64(id) < uint64(len(all)), field, "is %d in a vocabulary of %d", id, len(all))
	return all[id].Text
}

// chat is what files of a folder say of conversations.
type chat struct {
	Template chatText `json:"chat_template"`
	BOS      chatText `json:"bos_token"`
	EOS      chatText `json:"eos_token"`
}

func parseChat(f file) (c chat, err error) {
	if err = json.Unmarshal(f.data, &c); err != nil {
		field, why := modelfile.JSON(err)
		err = modelfile.ErrFile{File: f.name, Field: field, Why: why}
	}
	return c, err
}

// chatText is a text, an object that has it as content, or a list of named texts.
type chatText string

// UnmarshalJSON takes whichever of them data is.
func (t *chatText) UnmarshalJSON(data []byte) (err error) {
	switch data[0] {
	case '{':
		var token struct{ Content string }
		err = json.Unmarshal(data, &token)
		*t = chatText(token.Content)
	case '[':
		var all []struct{ Name, Template string }
		err = json.Unmarshal(data, &all)
		for i, named := range all {
			if i == 0 || named.Name == "default" {
				*t = chatText(named.Template)
			}
		}
	default:
		err = json.Unmarshal(data, (*string)(t))
	}
	return err
}
