package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/quality"
)

// writeTexts is a file of two short texts, of 17 and 29 tokens of the embedded model.
func writeTexts(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "texts.txt")
	require.NoError(t, os.WriteFile(path, []byte("Once upon a time\n<|endoftext|>\nThe big dog was a big boy he"), 0o600))
	return path
}

func TestQualityTable(t *testing.T) {
	texts := writeTexts(t)
	r := succeeds(t, "quality", "--text", texts, "--format", "f32,int8,f32")
	require.Empty(t, r.stderr)
	require.Regexp(t, `^model   embedded, 4 layers, 2 KV heads of 64
texts   2 texts of `+texts+`, 44 tokens predicted
device  cpu

format         policy     budget       nll      loss        kl     top1      bytes  of f32
f32            none            -   \d\.\d{5}  \+0\.00000   0\.00000  100\.00%  128\.0 KiB  100\.0%
int8           none            -   \d\.\d{5}  [+-]0\.0\d{4}   0\.00\d{3}  +\d+\.\d\d%   34\.0 KiB   26\.6%
$`, r.stdout)
	require.Regexp(t, `\nf16 .*\nkivi4 `, succeeds(t, "quality", "--text", texts, "--format", "f16,kivi4").stdout, "in the order asked for")
}

func TestQualityJSON(t *testing.T) {
	texts := writeTexts(t)
	r := succeeds(t, "quality", "--text", texts, "--json", "--format", "f32,int4", "--policy", "none,h2o,pyramidkv", "--budget", "8,16,8")
	lines := jsonLines(t, r.stdout)
	var rows []string
	for _, l := range lines {
		row := l["format"].(string) + " " + l["policy"].(string)
		names := []string{"format", "policy", "nll", "kl", "top1", "bytes", "tokens"}
		if budget, ok := l["budget"]; ok {
			row += map[float64]string{8: " 8", 16: " 16"}[budget.(float64)]
			names = append(names, "budget")
		}
		rows = append(rows, row)
		require.Len(t, l, len(names))
		for _, name := range names {
			require.Contains(t, l, name)
		}
		require.Positive(t, l["nll"])
		require.Positive(t, l["bytes"])
		require.LessOrEqual(t, l["top1"], 1.)
		require.Equal(t, 44., l["tokens"])
	}
	require.Equal(t, []string{"f32 none", "f32 h2o 8", "f32 h2o 16", "f32 pyramidkv 8", "f32 pyramidkv 16",
		"int4 none", "int4 h2o 8", "int4 h2o 16", "int4 pyramidkv 8", "int4 pyramidkv 16"}, rows)
	require.Zero(t, lines[0]["kl"])
	require.Equal(t, 1., lines[0]["top1"])
	require.Less(t, lines[1]["bytes"], lines[0]["bytes"])

	lines = jsonLines(t, succeeds(t, "quality", "--text", texts, "--json", "--policy", "sliding").stdout)
	require.Len(t, lines, 1)
	require.Equal(t, []any{"f32", 128.}, []any{lines[0]["format"], lines[0]["budget"]}, "a policy alone is about f32")
}

// Without flags there is a row for every format and every policy.
func TestQualityDefaults(t *testing.T) {
	lines := jsonLines(t, succeeds(t, "quality", "--text", writeTexts(t), "--json", "--threads", "1").stdout)
	var want, got []string
	for _, f := range quality.Formats() {
		want = append(want, f.Name+" none")
	}
	for _, p := range quality.Policies()[1:] {
		want = append(want, "f32 "+p.Name)
	}
	for _, l := range lines {
		got = append(got, l["format"].(string)+" "+l["policy"].(string))
	}
	require.Equal(t, want, got)
}

// What a device lacks, and what does not go together, is skipped by name, unless it was asked for.
func TestQualitySkips(t *testing.T) {
	few := fewFormats{}
	p, err := qualityFlags{budgets: []int{8}}.plan()
	require.NoError(t, err)
	require.NoError(t, p.on(few))
	require.Len(t, p.rows, 2+len(quality.Policies())-1)
	require.Equal(t, len(p.rows), p.readings(p.scenes[0]), "f32 is the reference")
	require.Len(t, p.skipped, 1)
	require.True(t, strings.HasPrefix(p.skipped[0], "formats that few does not have: f16, bf16, int8asym, "), p.skipped[0])
	p, err = qualityFlags{budgets: []int{8}, formats: []string{"f32", "int4"}}.plan()
	require.NoError(t, err)
	require.EqualError(t, p.on(few), "--format int4: few has f32, int8")

	r := succeeds(t, "quality", "--text", writeTexts(t), "--json", "--format", "kivi4,int8", "--policy", "none,h2o")
	require.Len(t, jsonLines(t, r.stdout), 3)
	require.Equal(t, "skipped  format kivi4 under policy h2o: a cache with a window of exact tokens keeps no attention scores\n", r.stderr)
	fails(t, []string{"quality", "--format", "int8", "--budget", "64"}, "--budget: no row has a policy that evicts")
	fails(t, []string{"quality", "--policy", "none", "--budget", "64"}, "--budget: no row has a policy that evicts")
	fails(t, []string{"quality", "--format", "kivi4", "--policy", "h2o"}, "format kivi4 under policy h2o: a cache with a window")
}

// fewFormats is a device with two formats, to plan for.
type fewFormats struct{ anyBackend }

func (fewFormats) Info() backend.Info { return backend.Info{Name: "few"} }

func (fewFormats) Caps() backend.Caps {
	return backend.Caps{Formats: []backend.Format{
		{Act: backend.F32, K: backend.F32, V: backend.F32}, {Act: backend.F32, K: backend.Int8, V: backend.Int8}}}
}

func TestQualityErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, []byte(" <|endoftext|> "), 0o600))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--format", "int9"}, "--format int9: accepts f32, f16, "},
		{[]string{"--policy", "lru"}, "--policy lru: accepts none, recency, "},
		{[]string{"--budget", "0"}, "--budget 0: accepts 1 to 2147483647"},
		{[]string{"--budget", ""}, "--budget"},
		{[]string{"--text", dir + "/none"}, "--text " + dir + "/none: "},
		{[]string{"--text", empty}, "--text " + empty + ": no text of two tokens"},
		{[]string{"--svg", dir}, "--svg " + dir + ": is a directory"},
		{[]string{"--svg", dir + "/no/file"}, "there is no directory " + dir + "/no"},
		{[]string{"--tokenizer", "tok"}, "--tokenizer tok: the embedded model has its own vocabulary"},
		{[]string{"--backend", "cuda:0"}, "cuda is not available: "},
		{[]string{"--threads", "-1"}, "--threads -1: accepts 0"},
	} {
		fails(t, append([]string{"quality"}, c.args...), c.want)
	}
}

// A measurement takes nothing from the environment, which could only spoil it.
func TestQualityIgnoresTheEnvironment(t *testing.T) {
	args := []string{"quality", "--text", writeTexts(t), "--json", "--format", "int8"}
	out, err := program(t, []string{"FERRUM_KV_MAX_BLOCKS=1", "FERRUM_KV_CAPACITY=2", "FERRUM_KV_PREFIX=lru", "FERRUM_KV_DTYPE=int4", "FERRUM_METAL_PAGED_KV=0"}, args...).Output()
	require.NoError(t, err)
	require.Equal(t, succeeds(t, args...).stdout, string(out))
}

func TestQualityFreesItsMemory(t *testing.T) {
	succeeds(t, "quality", "--text", writeTexts(t), "--backend", "counted", "--json", "--policy", "pyramidkv", "--budget", "8")
	noLeftovers(t)
}

// The plot has a mark for every row with its numbers, and a name for each.
func TestQualityPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quality.svg")
	r := succeeds(t, "quality", "--text", writeTexts(t), "--format", "f32,int8,kivi4,int4", "--policy", "none,h2o", "--budget", "8,16", "--svg", file)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	plot := string(data)
	decoder := xml.NewDecoder(strings.NewReader(plot))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "well-formed")
	}
	for _, name := range []string{">f32, kivi4<", "int8", "kivi4", "int4", "h2o 8", "h2o 16", "int8, h2o 8", "embedded, 4 layers, 2 KV heads of 64", "prefers-color-scheme: dark"} {
		require.Contains(t, plot, name)
	}
	require.NotContains(t, plot, "NaN")
	require.NotContains(t, plot, "http://www.w3.org/1999", "nothing to fetch")
	require.Contains(t, r.stdout, "int4 ")
}
