package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/cmd/internal/tinymodel"
)

// doctor says of a folder what generate does with it: that it runs, or why not.
func TestDoctorRuns(t *testing.T) {
	const runs = "\n  runs             as far as the headers of its files say\n"
	for _, m := range tinymodel.All() {
		require.Contains(t, succeeds(t, "doctor", "--model", folderOf(t, m, nil)).stdout, runs, m.Name)
	}
	m := tinymodel.All()[0]
	changed := func(from, to string) string {
		dir := folderOf(t, m, nil)
		parts, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
		require.NoError(t, err)
		for _, part := range parts {
			data, err := os.ReadFile(part)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(part, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600))
		}
		return dir
	}
	missing := folderOf(t, m, nil)
	parts, err := filepath.Glob(filepath.Join(missing, "*.safetensors"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(parts[0]))
	none := folderOf(t, m, nil)
	for _, part := range append(parts, filepath.Join(missing, "model.safetensors.index.json")) {
		require.NoError(t, os.Remove(filepath.Join(none, filepath.Base(part))))
	}
	for dir, why := range map[string]string{
		changed(`"F32"`, `"F64"`):                         "tensor type F64 (",
		changed("model.norm.weight", "model.nOrm.weight"): "tensor model.norm.weight",
		missing: filepath.Base(parts[0]) + ": file: is missing, part 1 of",
		none:    "a folder without weights is not supported by this runner; it reads model.safetensors",
		folderOf(t, m, map[string][]byte{"tokenizer.json": []byte(`{"model":{"type":"Unigram"}}`)}): `model.type "Unigram"`,
	} {
		r := succeeds(t, "doctor", "--model", dir)
		require.Regexp(t, `bytes of a token +\d`, r.stdout)
		require.Regexp(t, `\n  does not run     .*`+why[:5], r.stdout)
		require.Contains(t, r.stdout, why)
		require.NotContains(t, r.stdout, runs)
		fails(t, []string{"generate", "--model", dir}, why)
	}
	m.Configs["5"]["bos_token_id"] = 1 // so that tokens are no bytes
	require.Contains(t, succeeds(t, "doctor", "--model", folderOf(t, m, nil)).stdout, "a model without a vocabulary, whose 259 tokens are not bytes, is not supported")
}

// The weights of a model take from the room for its cache, which --context sizes as generate does.
func TestDoctorRoom(t *testing.T) {
	dir := folderOf(t, tinymodel.All()[0], nil)
	size := int64(0)
	files, err := filepath.Glob(filepath.Join(dir, "model*"))
	require.NoError(t, err)
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		size += info.Size()
	}
	of := func(args ...string) map[string]any {
		return jsonLines(t, succeeds(t, append([]string{"doctor", "--json", "--backend", "cpu"}, args...)...).stdout)[0]["cache"].(map[string]any)
	}
	cache := of("--model", dir, "--context", "100")
	room, without := cache["room"].(map[string]any), of("--layers", "1")["room"].(map[string]any)
	require.EqualValues(t, size, room["weights"])
	require.Equal(t, without["bytes"].(float64)-float64(size), room["bytes"])
	require.NotContains(t, without, "weights")
	require.EqualValues(t, 100, room["capacity"])
	require.Contains(t, cache["settings"], map[string]any{"name": "max sequences", "value": 1., "source": "option", "variable": "FERRUM_PAGED_MAX_SEQS"}, "of one text")
	require.Contains(t, succeeds(t, "doctor", "--model", dir).stdout, byteSize(size)+" of weights\n")
	require.Equal(t, "2 sequences of 8 tokens in 0 B after 3.0 GiB of weights", (&roomStatus{Sequences: 2, Capacity: 8, Weights: 3 << 30}).line())

	fails(t, []string{"doctor", "--context", "-1"}, "--context -1: accepts a number of tokens")
	fails(t, []string{"doctor", "--context", "4096"}, "--context 4096: the model was made for 1024 tokens")
	fails(t, []string{"doctor", "--model", dir, "--context", "1000000"}, "--context 1000000: the model was made for")
	fails(t, []string{"doctor", "--config", "x.json", "--context", "8"}, "--context cannot be used with --config")
}
