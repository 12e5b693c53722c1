package runner

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Load reads a model from disk. path is a folder with model.safetensors and
// config.json, a .safetensors file with config.json beside it, a .gguf file, or a
// .bin checkpoint of llama2.c. tokenizer is a tokenizer file of llama2.c; "" is
// what the model brings: the vocabulary inside of a GGUF file, or bytes. The
// tokenizer is nil if the model brings none that can be used.
//
// Errors are ErrFile and ErrUnsupported, or those of the file system. Each begins
// with the path of the file that it is about.
func Load(path, tokenizer string) (*Model, *Tokenizer, error) {
	m, t, err := LoadFS(disk{}, filepath.ToSlash(path))
	if err == nil && tokenizer != "" {
		var f file
		if f, err = open(disk{}, tokenizer); err == nil {
			t, err = parseTokenizer(f, m.Vocab)
		}
	}
	return m, t, err
}

// disk is the files of this machine by the paths that its user writes: os.DirFS
// knows, and names in errors, only a path below its folder.
type disk struct{}

func (disk) Open(name string) (fs.File, error)     { return os.Open(name) }
func (disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// LoadFS is Load from any file system, as of a model that is embedded in the program.
func LoadFS(fsys fs.FS, name string) (*Model, *Tokenizer, error) {
	if info, err := fs.Stat(fsys, name); err == nil && info.IsDir() {
		name = path.Join(name, "model.safetensors")
	}
	f, err := open(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	switch path.Ext(name) {
	case ".safetensors":
		return loadSafetensors(fsys, f)
	case ".gguf":
		return loadGGUF(f)
	case ".bin":
		cfg, a := parseCheckpoint(f)
		m, err := a.model(cfg, huggingFace)
		return m, nil, err
	}
	return nil, nil, f.unsupported("a model that is no folder and does not end in .safetensors, .gguf or .bin")
}

func loadSafetensors(fsys fs.FS, f file) (*Model, *Tokenizer, error) {
	c, err := open(fsys, path.Join(path.Dir(f.name), "config.json"))
	if err != nil {
		return nil, nil, err
	}
	cfg, err := parseConfig(c)
	if err != nil {
		return nil, nil, err
	}
	m, err := parseSafetensors(f).model(cfg, huggingFace)
	if err != nil || !isByteLevel(cfg) {
		return m, nil, err
	}
	return m, newByteTokenizer(cfg.Vocab, cfg.BOS), nil
}

func loadGGUF(f file) (*Model, *Tokenizer, error) {
	meta, a := parseGGUF(f)
	cfg := ggufConfig(meta, a)
	m, err := a.model(cfg, ggml)
	if err != nil || meta.values["tokenizer.ggml.model"] != "llama" {
		return m, nil, err
	}
	t, err := ggufTokenizer(meta, cfg.Vocab, cfg.BOS)
	return m, t, err
}
