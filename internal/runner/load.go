package runner

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/internal/tokenizer"
)

// Load reads a model from disk. path is a folder with config.json and
// model.safetensors or the files of model.safetensors.index.json, a .safetensors file with config.json beside it, a .gguf file, or a
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
		index := path.Join(name, "model.safetensors.index.json")
		name = path.Join(name, "model.safetensors")
		if _, err := fs.Stat(fsys, name); errors.Is(err, fs.ErrNotExist) {
			if _, err := fs.Stat(fsys, index); err == nil {
				name = index
			}
		}
	}
	f, err := open(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	switch path.Ext(name) {
	case ".safetensors":
		return loadSafetensors(fsys, f, parseSafetensors(f))
	case ".json":
		return loadSafetensors(fsys, f, parseShards(fsys, f))
	case ".gguf":
		return loadGGUF(f)
	case ".bin":
		cfg, a := parseCheckpoint(f)
		m, err := a.model(cfg)
		return m, nil, err
	}
	return nil, nil, f.unsupported("a model that is no folder and does not end in .safetensors, .gguf or .bin")
}

func loadSafetensors(fsys fs.FS, f file, a *archive) (*Model, *tokenizer.Tokenizer, error) {
	cfg, err := readConfig(fsys, path.Dir(f.name))
	if err != nil {
		return nil, nil, err
	}
	m, err := a.model(cfg)
	if err != nil || !isByteLevel(cfg) {
		return m, nil, err
	}
	return m, tokenizer.Bytes(cfg.Vocab, cfg.BOS), nil
}

// LoadConfig reads the config.json of a folder, as Load does: what the model is, without its weights.
func LoadConfig(folder string) (Config, error) { return readConfig(disk{}, filepath.ToSlash(folder)) }

func readConfig(fsys fs.FS, folder string) (Config, error) {
	f, err := open(fsys, path.Join(folder, "config.json"))
	if err != nil {
		return Config{}, err
	}
	return parseConfig(f)
}

func loadGGUF(f file) (*Model, *tokenizer.Tokenizer, error) {
	meta, a := parseGGUF(f)
	cfg := ggufConfig(meta, a)
	m, err := a.model(cfg)
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
	return c.BOS >= 256 && c.BOS != NoToken && c.Vocab <= 256+special
}
