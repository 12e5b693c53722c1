package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/tinymodel"
	"github.com/stretchr/testify/require"
)

// tokenizerJSON has the 256 bytes as tokens, of which three that no text has are "On", "Onc" and "Once", and after them BOS.
func tokenizerJSON(t *testing.T) []byte {
	vocab, unseen := map[string]int{"On": 248, "Onc": 249, "Once": 250}, rune(0x100)
	for b := range rune(256) {
		char := b
		if b <= ' ' || b > '~' && b < 0xa1 || b == 0xad {
			char, unseen = unseen, unseen+1
		}
		if b < 248 || b > 250 {
			vocab[string(char)] = int(b)
		}
	}
	type object = map[string]any
	level := object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}
	data, err := json.Marshal(object{
		"model":         object{"type": "BPE", "vocab": vocab, "merges": []string{"O n", "On c", "Onc e"}},
		"added_tokens":  []object{{"id": 256, "content": "<s>", "special": true}},
		"pre_tokenizer": level, "decoder": level,
		"post_processor": object{"type": "TemplateProcessing", "special_tokens": object{"<s>": object{"ids": []int{256}}},
			"single": []object{{"SpecialToken": object{"id": "<s>"}}, {"Sequence": object{"id": "A"}}}},
	})
	require.NoError(t, err)
	return data
}

// folderOf is a tiny model on disk, with what else is in its folder.
func folderOf(t *testing.T, m *tinymodel.Model, more map[string][]byte) string {
	dir := filepath.Join(t.TempDir(), m.Name)
	require.NoError(t, os.CopyFS(dir, m.Folder("5")))
	for name, data := range more {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return dir
}

// Every family generates from its folder with a tokenizer file, the same text in both layouts, with guesses and without; and
// with the file in the folder.
func TestGenerateFamilies(t *testing.T) {
	tokenizer := filepath.Join(t.TempDir(), "some.json")
	require.NoError(t, os.WriteFile(tokenizer, tokenizerJSON(t), 0o600))
	for _, m := range tinymodel.All() {
		t.Run(m.Name, func(t *testing.T) {
			plain, own := folderOf(t, m, nil), folderOf(t, m, map[string][]byte{"tokenizer.json": tokenizerJSON(t)})
			states := strings.HasPrefix(m.Name, "qwen3-next")
			var want map[string]any
			for _, args := range []string{
				"--layout paged --model " + plain + " --tokenizer " + tokenizer, "--layout contiguous --model " + plain + " --tokenizer " + tokenizer,
				"--model " + own, "--layout paged --block-size 8 --guesses 4 --model " + own, "--layout contiguous --guesses 4 --model " + own,
			} {
				fields := append([]string{"generate", "--json", "--kv-dtype", "f32", "--max-tokens", "60", "--prompt", "Once upon a time, Once upon"}, strings.Fields(args)...)
				switch {
				case (states || m.Name == "llama4") && strings.Contains(args, "guesses"):
					fails(t, fields, "--guesses 4: layer 0 is of kind")
					continue
				case states && strings.Contains(args, "contiguous"):
					fails(t, fields, "the contiguous layout does not hold this model, whose layers keep a state; say --layout paged\n")
					continue
				}
				lines := jsonLines(t, succeeds(t, fields...).stdout)
				if want == nil {
					want = lines[0]
					require.EqualValues(t, 22, want["prompt_tokens"], "BOS, and each Once as one token")
				}
				require.Equal(t, want, lines[0], args)
				if strings.Contains(args, "guesses") {
					report := lines[1]["report"].(map[string]any)
					if right, some := report["right_guesses"]; some {
						require.GreaterOrEqual(t, report["guesses"], right)
					}
				}
			}
		})
	}
}

// The report has the formats of the planes that there are: latents have no values.
func TestGenerateReportsPlanes(t *testing.T) {
	for _, m := range tinymodel.All() {
		args := []string{"generate", "--kv-dtype", "f16", "--max-tokens", "1", "--model", folderOf(t, m, nil)}
		formats, values := ", K f16, V f16, on ", any("f16")
		if strings.HasPrefix(m.Name, "deepseek") {
			formats, values = ", K f16, on ", nil
		}
		require.Contains(t, succeeds(t, args...).stderr, formats, m.Name)
		report := jsonLines(t, succeeds(t, append(args, "--json")...).stdout)[1]["report"].(map[string]any)
		require.Equal(t, []any{"f16", values}, []any{report["k_type"], report["v_type"]}, m.Name)
	}
}

// Of a folder the tokenizer is the one that was asked for, else its own, else bytes; where there is none, the error says what to do.
func TestGenerateFindsTokenizer(t *testing.T) {
	m := tinymodel.All()[0]
	bin := []byte{1, 0, 0, 0} // a tokenizer of llama2.c: the longest token, and for each its score, length and text
	for range 259 {
		bin = append(bin, 0, 0, 0, 0, 1, 0, 0, 0, 'a')
	}
	tokens := func(dir string, more ...string) any {
		args := append([]string{"generate", "--json", "--max-tokens", "1", "--prompt", "Once Once", "--model", dir}, more...)
		return jsonLines(t, succeeds(t, args...).stdout)[0]["prompt_tokens"]
	}
	both := folderOf(t, m, map[string][]byte{"tokenizer.json": tokenizerJSON(t), "tokenizer.bin": bin})
	require.EqualValues(t, 4, tokens(both))
	require.EqualValues(t, 4, tokens(filepath.Join(both, "model.safetensors.index.json")))
	require.EqualValues(t, 1+1+9, tokens(both, "--tokenizer", filepath.Join(both, "tokenizer.bin")), "BOS and a space come first")
	require.EqualValues(t, 1+1+9, tokens(folderOf(t, m, map[string][]byte{"tokenizer.bin": bin})))
	require.EqualValues(t, 1+9, tokens(folderOf(t, m, nil)))

	broken := folderOf(t, m, map[string][]byte{"tokenizer.json": []byte(`{"model":{"type":"Unigram"}}`)})
	fails(t, []string{"generate", "--model", broken}, filepath.Join(broken, "tokenizer.json"), `model.type "Unigram"`)
	m.Configs["5"]["bos_token_id"] = 1 // so that tokens are no bytes
	none := folderOf(t, m, nil)
	fails(t, []string{"generate", "--model", none}, none, "a model without a vocabulary, whose 259 tokens are not bytes, is not supported", "put its tokenizer.json into the folder", "--tokenizer")
}
