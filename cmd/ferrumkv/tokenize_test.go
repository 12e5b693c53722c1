package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/stretchr/testify/require"
)

func TestTokenize(t *testing.T) {
	require.Equal(t, "     256  special\n      97  \"a\"\n     195  \"\\xc3\"\n     169  \"\\xa9\"\n4 tokens\n", succeeds(t, "tokenize", "aé").stdout)
	require.Equal(t, "[256, 97, 10, 98]\n", with(t, "a\nb\n", "tokenize", "--ids").stdout)
	require.Equal(t, "[256, 97]\n", with(t, "a", "tokenize", "--ids", "-").stdout)
	require.Equal(t, "[256]\n", succeeds(t, "tokenize", "--ids", "").stdout)
	require.Equal(t, `{"count":2,"tokens":[{"id":256,"piece":""},{"id":97,"piece":"a"}]}`+"\n", succeeds(t, "tokenize", "--json", "a").stdout)

	fails(t, []string{"tokenize"}, "no text; write it after the flags, or pipe it in; see 'ferrumkv tokenize --help'")
	fails(t, []string{"tokenize", "a", "b"}, "2 texts; put one between quotation marks")
	fails(t, []string{"tokenize", "--ids", "--json", "a"}, "--ids cannot be used with --json")
	fails(t, []string{"tokenize", "--tokenizer", "tok512.bin", "a"}, "--tokenizer tok512.bin: only its model says how many tokens are in it; name that by --model, too")
	fails(t, []string{"tokenize", "--tokenizer", file(t, "tokenizer.model", ""), "a"}, "SentencePiece's own file is not supported by this runner; it reads tokenizer.json")
	fails(t, []string{"tokenize", "--tokenizer", "none.json", "a"}, "--tokenizer: open none.json: ")
}

// A tokenizer.json alone is enough.
func TestTokenizeWithoutModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"decoder":{"type":"ByteLevel"},"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
		"model":{"type":"BPE","vocab":{"h":1,"i":2,"hi":3,"Ġ":4},"merges":["h i"]}}`), 0o600))
	require.Equal(t, "       3  \"hi\"\n       4  \" \"\n       3  \"hi\"\n3 tokens\n", succeeds(t, "tokenize", "--tokenizer", file, "hi hi").stdout)
}

// Tokens are those of llama.cpp.
func TestTokenizeAsLlamaCpp(t *testing.T) {
	for _, name := range []string{"llama-q8_0", "llama3-q4_k_m", "qwen2-f16"} {
		data, err := os.ReadFile(external.Path(t, "gguf", name, "expected.json"))
		require.NoError(t, err)
		type prompt struct {
			Prompt string
			IDs    []uint32 `json:"prompt_ids"`
		}
		var expected struct{ Long, Short prompt }
		require.NoError(t, json.Unmarshal(data, &expected))
		for _, c := range []prompt{expected.Long, expected.Short} {
			require.NotEmpty(t, c.IDs)
			var got struct {
				Tokens []struct{ ID uint32 }
			}
			require.NoError(t, json.Unmarshal([]byte(succeeds(t, "tokenize", "--json", "-m", external.Path(t, "gguf", name, name+".gguf"), c.Prompt).stdout), &got))
			var ids []uint32
			for _, token := range got.Tokens {
				ids = append(ids, token.ID)
			}
			require.Equal(t, fmt.Sprint(c.IDs), fmt.Sprint(ids), "%s: %q", name, c.Prompt)
		}
	}
}
