package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// writeLong is a file of a text that is too short for scenes and one of 96 tokens of the
// embedded model.
func writeLong(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "long.txt")
	text := "Once\n<|endoftext|>\nOnce upon a time there was a little girl named Lily. She had a big dog, and the dog had a ball."
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Every scene has a table of its own, and f32 with nothing reused as its reference.
func TestQualityScenes(t *testing.T) {
	r := succeeds(t, "quality", "--text", writeLong(t), "--scene", "afresh,reuse,window,shift", "--format", "f32,kivi4", "--context", "64")
	require.Empty(t, r.stderr)
	numbers := ` +\d\.\d{5}  ([+-]0\.\d{5})   (0\.\d{5})  +\d+\.\d\d% .*%\n`
	f32 := `f32            none            -   \d\.\d{5}  \+0\.00000   0\.00000  100\.00% .*  100\.0%\n`
	table := `\nformat .*\n` + f32 + `kivi4          none            - ` + numbers
	require.Regexp(t, `^model   embedded, 4 layers, 2 KV heads of 64
texts   2 texts of .*long.txt
device  cpu

scene   afresh; 1 text, 63 tokens predicted
`+table+`
scene   reuse, 32 tokens reused; 1 text, 63 tokens predicted
`+table+`
scene   window, context of 64 tokens; 1 text, 95 tokens predicted
`+table+`
scene   shift, context of 64 tokens, 2 shifts; 1 text, 95 tokens predicted
`+table+`$`, r.stdout)
}

func TestQualityScenesJSON(t *testing.T) {
	lines := jsonLines(t, succeeds(t, "quality", "--text", writeLong(t), "--json", "--scene", "reuse,shift,reuse", "--format", "f32,int4", "--policy", "none", "--context", "80").stdout)
	require.Len(t, lines, 4)
	for i, l := range lines {
		require.Equal(t, []any{[]any{"f32", "int4"}[i%2], "none"}, []any{l["format"], l["policy"]})
		if i < 2 {
			require.Equal(t, []any{"reuse", 32., nil, nil}, []any{l["scene"], l["reused"], l["shifts"], l["context"]})
		} else {
			require.Equal(t, []any{"shift", nil, 1., 80.}, []any{l["scene"], l["reused"], l["shifts"], l["context"]})
		}
	}
	require.Less(t, lines[0]["kl"], 1e-9)

	lines = jsonLines(t, succeeds(t, "quality", "--text", writeTexts(t), "--json", "--scene", "window", "--context", "8").stdout)
	require.Greater(t, len(lines), 10, "all formats, no policies")
	require.Equal(t, "kivi4-int8", lines[len(lines)-1]["format"])
}

func TestQualitySceneErrors(t *testing.T) {
	texts := writeTexts(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--scene", "plain"}, "--scene plain: accepts afresh, reuse, window, shift"},
		{[]string{"--scene", "window", "--context", "7"}, "--context 7: accepts 8 to 2147483647"},
		{[]string{"--scene", "reuse", "--context", "64"}, "--context: no scene has one; name window or shift with --scene"},
		{[]string{"--context", "64"}, "--context: no scene has one"},
		{[]string{"--scene", "reuse", "--budget", "64"}, "--budget: no row has a policy that evicts"},
		{[]string{"--scene", "shift", "--policy", "none,h2o"}, "--scene shift under policy h2o: scenes keep everything"},
		{[]string{"--scene", "reuse", "--text", texts}, "--scene reuse: needs a text of 64 tokens"},
		{[]string{"--scene", "window,shift", "--text", texts}, "--scene window: needs a text of 130 tokens"},
	} {
		fails(t, append([]string{"quality"}, c.args...), c.want)
	}
}

func TestQualitySceneFreesItsMemory(t *testing.T) {
	succeeds(t, "quality", "--text", writeLong(t), "--backend", "counted", "--json", "--scene", "reuse,shift", "--context", "64", "--format", "kivi4")
	noLeftovers(t)
}

func TestQualityScenePlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scenes.svg")
	succeeds(t, "quality", "--text", writeLong(t), "--scene", "afresh,shift", "--context", "64", "--format", "f32,int4", "--svg", file)
	plot, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(plot, new(struct{})))
	for _, name := range []string{">f32, afresh<", ">int4, afresh<", ">int4, shift<"} {
		require.Equal(t, 1, strings.Count(string(plot), name), name)
	}
}
