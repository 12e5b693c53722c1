package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/stretchr/testify/require"
)

// evil is what a terminal would act on: a title, colours, the cursor, eight-bit controls, text from right to left.
const evil = "a\x1b]0;pwned\x07\x1b[31m\rb\x08\x7f\u009b2J\u202egnp.exe\u2066\x00\u2028"

// harmless fails if a terminal would act on a text.
func harmless(t *testing.T, text string, what string) {
	t.Helper()
	require.NotEmpty(t, text, what)
	require.False(t, strings.ContainsFunc(text, command), "%s: %q", what, text)
}

func TestScreen(t *testing.T) {
	var out bytes.Buffer
	s := &screen{to: &out}
	n, err := s.Write([]byte(evil))
	require.NoError(t, err)
	require.Equal(t, len(evil), n)
	require.Equal(t, `a\u001b]0;pwned\u0007\u001b[31m\u000db\u0008\u007f\u009b2J\u202egnp.exe\u2066\u0000\u2028`, out.String())

	// Characters in pieces, and invalid bytes.
	const text = "größer ▁ 🙂\tà\n"
	out.Reset()
	for _, b := range []byte(text + "\x9b\xff\n") {
		n, err := s.Write([]byte{b})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	require.Equal(t, text+`\x9b\xff`+"\n", out.String())

	// JSON stays JSON, of the same text.
	out.Reset()
	require.NoError(t, writeJSON(s, map[string]string{"text": evil}))
	harmless(t, out.String(), "JSON")
	var read map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &read))
	require.Equal(t, evil, read["text"])

	require.Equal(t, &out, asItIs(s), "without a terminal a model's text is unchanged")
	_, err = (&screen{to: failing{}}).Write([]byte("x"))
	require.Error(t, err)
}

// The progress line names files, too.
func TestProgressDoesNotSpeakToTerminals(t *testing.T) {
	var shown strings.Builder
	p := &progress{out: &shown}
	p.show("reading %s", evil)
	harmless(t, strings.TrimPrefix(shown.String(), "\r"), "progress")
	require.Contains(t, shown.String(), `reading a\u001b]0;pwned`)
	p.clear()
	require.True(t, strings.HasSuffix(shown.String(), strings.Repeat(" ", p.width)+"\r"))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("closed") }

// No command sends text from a file to a terminal unescaped, be it its content, its names or its errors.
func TestFilesDoNotSpeakToTerminals(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, data, 0o600))
		return name
	}
	var snap bytes.Buffer
	w := snapshot.NewWriter(&snap, snapshot.Options{})
	require.NoError(t, w.Head(&snapshot.Head{Content: "model " + evil + "\nlayers " + evil + "\n", Notes: []snapshot.Note{{Name: evil}}}))
	require.NoError(t, w.Close())
	saved := write("evil.snap", snap.Bytes())

	le := binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint64(b, uint64(len(s))), s...) }
	gguf := le.AppendUint64(le.AppendUint64(le.AppendUint32([]byte("GGUF"), 3), 1), 0)
	gguf = text(gguf, evil) // a tensor of nine dimensions
	gguf = le.AppendUint32(gguf, 9)
	header := `{"` + `tensor \u001b[31m \u009b \u202e` + `":{"dtype":"F32","shape":[1],"data_offsets":[5,1]}}`
	config := `{"model_type":"\u001b[31m\u009b\u202e"}`
	folder := filepath.Join(dir, "model")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "config.json"), []byte(config), 0o600))
	for _, args := range [][]string{
		{"inspect", "--content", saved},
		{"inspect", "--json", saved},
		{"inspect", saved},
		{"generate", "--model", write("m.gguf", gguf)},
		{"generate", "--model", write("m.safetensors", append(le.AppendUint64(nil, uint64(len(header))), header...))},
		{"doctor", "--model", folder},
		{"inspect", filepath.Join(dir, "no\x1b[31mfile")},
		{"generate", "--resume", saved},
		{"\x1b[31m"},
	} {
		var stdout, stderr bytes.Buffer
		run(context.Background(), args, &stdout, &stderr)
		if args[0] == "inspect" && strings.HasSuffix(args[len(args)-1], "evil.snap") {
			require.Contains(t, stdout.String(), `\u009b2J\u202egnp.exe`, args)
		}
		harmless(t, stdout.String()+stderr.String(), strings.Join(args, " "))
	}
}
