package llama

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/internal/tokenizer"
)

// Load reads a model from disk. path is a folder with model.safetensors and
// config.json, a .safetensors file with config.json beside it, a .gguf file, or a
// .bin checkpoint of llama2.c. vocabulary is a file that tokenizer.Read takes; "" is
// what the model brings: the vocabulary inside of a GGUF file, or bytes. The
// tokenizer is nil if the model brings none that can be used.
//
// Errors are ErrFile and ErrUnsupported, or those of the file system. Each begins
// with the path of the file that it is about.
func Load(path, vocabulary string) (*Model, *tokenizer.Tokenizer, error) {
	m, t, err := LoadFS(disk{}, filepath.ToSlash(path))
	if err == nil && vocabulary != "" {
		var f file
		if f, err = open(disk{}, vocabulary); err == nil {
			t, err = tokenizer.Read(f.name, f.data, m.Vocab)
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
func LoadFS(fsys fs.FS, name string) (*Model, *tokenizer.Tokenizer, error) {
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

func loadSafetensors(fsys fs.FS, f file) (*Model, *tokenizer.Tokenizer, error) {
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
	return m, tokenizer.Bytes(cfg.Vocab, cfg.BOS), nil
}

func loadGGUF(f file) (*Model, *tokenizer.Tokenizer, error) {
	meta, a := parseGGUF(f)
	cfg := ggufConfig(meta, a)
	m, err := a.model(cfg, ggml)
	if err != nil || meta.values["tokenizer.ggml.model"] != "llama" {
		return m, nil, err
	}
	t, err := ggufTokenizer(meta, cfg.Vocab, cfg.BOS)
	return m, t, err
}

// isByteLevel recognises a vocabulary of bytes by its size, with the special
// tokens right behind them: such a model needs no tokenizer file.
func isByteLevel(c Config) bool {
	const special = 16 // tokens behind the bytes, at most
	return c.BOS >= 256 && c.Vocab <= 256+special
}
