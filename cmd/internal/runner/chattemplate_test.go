package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Templates are found wherever models have them, with the texts of the tokens that they name.
func TestChatTemplate(t *testing.T) {
	text := func(s string) []byte { return join(u32(ggufString), text(s)) }
	number := func(v int) []byte { return join(u32(ggufU32), u32(uint32(v))) }
	gguf := func(more map[string][]byte) []byte {
		meta := craftMeta(craftConfig(8))
		for key, value := range more {
			meta[key] = value
		}
		return craftGGUF(meta, nil, "F32")
	}
	for name, c := range map[string]struct {
		files map[string]string
		path  string // in the folder
		want  [3]string
		fails string
	}{
		"a string":      {map[string]string{"tokenizer_config.json": `{"chat_template":"T","bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false}}`}, "", [3]string{"T", "<s>", "</s>"}, ""},
		"no BOS":        {map[string]string{"tokenizer_config.json": `{"chat_template":"T","bos_token":null,"eos_token":"E","added_tokens_decoder":{"0":{"content":"!"}}}`}, "", [3]string{"T", "", "E"}, ""},
		"a list":        {map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"tool_use","template":"U"},{"name":"default","template":"D"}]}`}, "", [3]string{"D", "", ""}, ""},
		"no default":    {map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"a","template":"A"},{"name":"b","template":"B"}]}`}, "", [3]string{"A", "", ""}, ""},
		"a file":        {map[string]string{"chat_template.jinja": "{{ bos_token }}", "tokenizer_config.json": `{"chat_template":"T","eos_token":"E"}`}, "", [3]string{"{{ bos_token }}", "", "E"}, ""},
		"older files":   {map[string]string{"chat_template.json": `{"chat_template":"T"}`, "special_tokens_map.json": `{"bos_token":{"content":"B"},"eos_token":"E"}`}, "", [3]string{"T", "B", "E"}, ""},
		"beside":        {map[string]string{"m.safetensors": "", "tokenizer_config.json": `{"chat_template":"T"}`}, "m.safetensors", [3]string{"T", "", ""}, ""},
		"none":          {map[string]string{"config.json": "{}"}, "", [3]string{}, ""},
		"llama2.c":      {map[string]string{"m.bin": ""}, "m.bin", [3]string{}, ""},
		"GGUF":          {map[string]string{"m.gguf": string(gguf(map[string][]byte{"tokenizer.chat_template": text("G"), "tokenizer.ggml.bos_token_id": number(2), "tokenizer.ggml.eos_token_id": number(4)}))}, "m.gguf", [3]string{"G", "</s>", "▁a"}, ""},
		"GGUF, silent":  {map[string]string{"m.gguf": string(gguf(nil))}, "m.gguf", [3]string{"", "<s>", "</s>"}, ""},
		"GGUF, no BOS":  {map[string]string{"m.gguf": string(gguf(map[string][]byte{"tokenizer.ggml.model": text("gpt2")}))}, "m.gguf", [3]string{}, ""},
		"beyond":        {map[string]string{"m.gguf": string(gguf(map[string][]byte{"tokenizer.ggml.bos_token_id": number(5)}))}, "m.gguf", [3]string{}, "is 5 in a vocabulary of 5"},
		"a number":      {map[string]string{"m.gguf": string(gguf(map[string][]byte{"tokenizer.chat_template": number(5)}))}, "m.gguf", [3]string{}, "tokenizer.chat_template: is a number, need a string"},
		"broken beside": {map[string]string{"tokenizer_config.json": `{"chat_template":`, "chat_template.jinja": "good"}, "", [3]string{"good"}, ""},
		"broken JSON":   {map[string]string{"tokenizer_config.json": `{"chat_template":`}, "", [3]string{}, "tokenizer_config.json: JSON: unexpected end"},
		"another type":  {map[string]string{"tokenizer_config.json": `{"chat_template":7}`}, "", [3]string{}, "tokenizer_config.json: chat_template: has a value of type number, need another type"},
		"another type2": {map[string]string{"tokenizer_config.json": `{"chat_template":[7]}`}, "", [3]string{}, "tokenizer_config.json: chat_template: has a value of type number, need another type"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, data := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
			}
			if c.path == "" {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "model.safetensors"), nil, 0o600))
			}
			template, bos, eos, err := ChatTemplate(filepath.Join(dir, c.path))
			if c.fails != "" {
				require.ErrorContains(t, err, c.fails)
				require.ErrorAs(t, err, new(ErrFile))
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.want, [3]string{template, bos, eos})
		})
	}
	dir := t.TempDir()
	for _, name := range []string{"m.gguf", "folder", filepath.Join("folder", "model.safetensors")} {
		_, _, _, err := ChatTemplate(filepath.Join(dir, name))
		require.ErrorIs(t, err, os.ErrNotExist, name)
	}
	for _, name := range []string{"m.gguf", "n.gguf"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	_, _, _, err := ChatTemplate(dir)
	require.ErrorContains(t, err, "a folder of GGUF files is not supported by this runner; name one of them")
}
