package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A folder with one GGUF model is that model, whatever cannot be opened beside it.
func TestFolderOfOneGGUF(t *testing.T) {
	dir, c := t.TempDir(), craftConfig(8)
	data := craftGGUF(craftMeta(c), craftArrays(c, ggufWeights), "F32")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m.gguf"), data, 0o600))
	_ = os.Symlink(filepath.Join(dir, "gone"), filepath.Join(dir, "a.gguf")) // where the system lets us
	m, err := LoadWeights(dir, nil)
	require.NoError(t, err)
	require.Equal(t, 8, m.Dim)
	require.NoError(t, m.Close())
}

// A GGUF file is known by what it begins with, whatever its name is: stores name files by their hashes.
func TestGGUFOfAnyName(t *testing.T) {
	c := craftConfig(8)
	data := craftGGUF(craftMeta(c), craftArrays(c, ggufWeights), "F32")
	for _, name := range []string{"sha256-1f3e", "m.bin", "m.safetensors", "llama3.2"} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		m, err := LoadWeights(path, nil)
		require.NoError(t, err, name)
		require.Equal(t, 8, m.Dim)
		require.NoError(t, m.Close())
		h, cannot, err := LoadHeader(path)
		require.NoError(t, err, name)
		require.Empty(t, cannot)
		require.Equal(t, 8, h.Dim)
		_, _, _, err = ChatTemplate(path)
		require.NoError(t, err, name)
	}
}

// Files that are not whole, or not what their names say, are refused with what to do.
func TestFilesThatAreNotWhole(t *testing.T) {
	c := craftConfig(8)
	gguf, config := craftGGUF(craftMeta(c), craftArrays(c, ggufWeights), "F32"), craftJSON(c, "")
	tensors := craftSafetensors(craftArrays(c, huggingFace), "F32")
	index := []byte(`{"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`)
	for name, k := range map[string]struct {
		files map[string][]byte
		load  string
		says  []string
	}{
		"no shard": {map[string][]byte{"config.json": config, "model.safetensors.index.json": index, "model-00001-of-00002.safetensors": tensors}, ".",
			[]string{"model-00002-of-00002.safetensors: file: is missing, part 2 of the 2 that the model is in"}},
		"empty":           {map[string][]byte{"m.gguf": {}}, "m.gguf", []string{"m.gguf: contents: are empty: download the file again"}},
		"page":            {map[string][]byte{"m.gguf": []byte("\n<!DOCTYPE html><html>")}, "m.gguf", []string{"are a page of a web site (HTML)"}},
		"cut GGUF":        {map[string][]byte{"m.gguf": gguf[:len(gguf)-40]}, "m.gguf", []string{"m.gguf: size: is ", again}},
		"cut safetensors": {map[string][]byte{"config.json": config, "model.safetensors": tensors[:len(tensors)-4]}, ".", []string{"model.safetensors: size: is ", again}},
		"cut header":      {map[string][]byte{"config.json": config, "model.safetensors": tensors[:40]}, ".", []string{"model.safetensors: header: has ", again}},
		"adapter":         {map[string][]byte{"adapter_model.safetensors": tensors}, "adapter_model.safetensors", []string{"a LoRA adapter", merge}},
		"list":            {map[string][]byte{"config.json": []byte("[1]"), "model.safetensors": tensors}, ".", []string{"config.json: configuration: is not a JSON object"}},
		"another type":    {map[string][]byte{"config.json": []byte(`{"model_type":[]}`), "model.safetensors": tensors}, ".", []string{"configuration model_type: is a list, need a string"}},
		"other ending":    {map[string][]byte{"m.xyz": tensors}, "m.xyz", []string{"a name that ends in .xyz is not supported by this runner; it reads folders"}},
		"other JSON":      {map[string][]byte{"some.json": []byte(`{"a":1}`)}, "some.json", []string{"some.json: weight_map: names no files", "name the model's folder"}},
	} {
		_, _, err := LoadFS(folder(k.files), k.load)
		for _, says := range k.says {
			require.ErrorContains(t, err, says, name)
		}
	}
}
