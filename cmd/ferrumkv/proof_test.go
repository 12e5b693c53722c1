package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	modeldata "github.com/ferrumkv/ferrumkv/testdata/model"
	"github.com/stretchr/testify/require"
)

// A proof of the embedded model has its text, its files' hashes, logits of which the largest is the text's first token, and no path.
func TestProof(t *testing.T) {
	r := succeeds(t, "proof", "--backend", "cpu", "--threads", "1")
	require.Empty(t, r.stderr)
	lines := map[string][]string{}
	for line := range strings.Lines(r.stdout) {
		name, rest, ok := strings.Cut(line, " ")
		require.True(t, ok, line)
		lines[name] = append(lines[name], strings.TrimSpace(rest))
	}
	data, err := modeldata.Files.ReadFile("expected.json")
	require.NoError(t, err)
	var golden struct{ Cases []struct{ Text string } }
	require.NoError(t, json.Unmarshal(data, &golden))
	require.Len(t, lines["text"], 1)
	text, err := strconv.Unquote(lines["text"][0])
	require.NoError(t, err)
	require.Len(t, text, 32, "a token is a byte")
	require.True(t, strings.HasPrefix(golden.Cases[0].Text, text), text)

	require.Len(t, lines["logit"], 20)
	require.Regexp(t, fmt.Sprintf(`^position 16, token %d: [\d.]+ 0x1\.[0-9a-f]+p\+\d\d$`, text[0]), lines["logit"][10])
	weights, err := modeldata.Files.ReadFile("model.safetensors")
	require.NoError(t, err)
	require.Contains(t, lines["file"], fmt.Sprintf("model.safetensors, %d bytes, SHA-256 %x", len(weights), sha256.Sum256(weights)))
	require.Equal(t, []string{"38 in F16"}, lines["tensors"])
	require.Equal(t, []string{"llama, 4 layers of 256, a vocabulary of 259, made for 1024 tokens"}, lines["model"])
	require.Equal(t, []string{"contiguous in f16: 2048 bytes a token, 2359296 for 1024 tokens"}, lines["cache"])
	require.Len(t, lines["speed"], 2)
	require.Regexp(t, `^pp512: 512 tokens in .*, [\d.]+ tokens/s$`, lines["speed"][0])
	require.Regexp(t, `^tg128: 128 tokens in .*, [\d.]+ tokens/s$`, lines["speed"][1])

	fails(t, []string{"proof", "--model", "nowhere/else.gguf"}, "nowhere/else.gguf")
	fails(t, []string{"proof", "more"}, "unknown argument")
}

// Hashing ends when it is interrupted, before it comes to the end of a file.
func TestProofInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	p := proof{out: &out}
	require.ErrorIs(t, p.files(ctx, modelFlags{}), context.Canceled)
	require.Empty(t, out.String())
}

// All parts of a model in several files are hashed, and of a folder what a model is read from.
func TestFilesOfModels(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "other-00001-of-00002.gguf", "config.json", "model.safetensors", "README.md", "[odd].gguf"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	for path, want := range map[string][]string{
		"m-00001-of-00002.gguf": {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"},
		"":                      {"config.json", "model.safetensors"},
		"[odd].gguf":            {"[odd].gguf"},
		"model.safetensors":     {"model.safetensors"},
	} {
		_, names, err := modelFlags{model: filepath.Join(dir, path)}.files()
		require.NoError(t, err)
		require.Equal(t, want, names, path)
	}
}
