package runner

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/ferrumkv/ferrumkv/internal/tokenizer"
)

// Load reads a model from disk. path is a folder with config.json and model.safetensors or the files of
// model.safetensors.index.json, a .safetensors file with config.json beside it, a .gguf file, or a .bin checkpoint of llama2.c.
// vocabulary is a file that tokenizer.Read takes; "" is what the model brings: tokenizer.json, or else tokenizer.bin, beside
// config.json, the vocabulary inside of a GGUF file, or bytes. The tokenizer is nil if the model brings none that can be used.
//
// Errors are ErrFile and ErrUnsupported of modelfile, or those of the file system. Each begins with the path of the file
// that it is about.
func Load(path, vocabulary string) (*Model, *tokenizer.Tokenizer, error) {
	return load(disk{}, filepath.ToSlash(path), vocabulary)
}

// disk is the files of this machine by the paths that its user writes: os.DirFS
// knows, and names in errors, only a path below its folder.
type disk struct{}

func (disk) Open(name string) (fs.File, error)     { return os.Open(name) }
func (disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// LoadFS is Load from any file system, as of a model that is embedded in the program.
func LoadFS(fsys fs.FS, name string) (*Model, *tokenizer.Tokenizer, error) {
	return load(fsys, name, "")
}

func load(fsys fs.FS, name, vocabulary string) (m *Model, t *tokenizer.Tokenizer, err error) {
	defer caught(&err)
	there := func(name string) bool {
		_, err := fs.Stat(fsys, name)
		return err == nil
	}
	if info, err := fs.Stat(fsys, name); err == nil && info.IsDir() {
		index := path.Join(name, "model.safetensors.index.json")
		if name = path.Join(name, "model.safetensors"); !there(name) && there(index) {
			name = index
		}
	}
	f := open(fsys, name)
	var cfg Config
	var a *archive
	var meta *settings // of a GGUF file
	switch ext, folder := path.Ext(name), path.Dir(name); ext {
	case ".safetensors", ".json":
		if ext == ".json" {
			a = parseShards(fsys, f)
		} else {
			a = parseSafetensors(f)
		}
		cfg = readConfig(fsys, folder)
		for _, file := range []string{"tokenizer.json", "tokenizer.bin"} {
			if file = path.Join(folder, file); vocabulary == "" && there(file) {
				vocabulary = file
			}
		}
	case ".gguf":
		meta, a = parseGGUF(f)
		cfg = ggufConfig(meta, a)
	case ".bin":
		cfg, a = parseCheckpoint(f)
	default:
		f.refuse("a model that is no folder and does not end in .safetensors, .gguf or .bin")
	}
	m = a.model(cfg)
	switch {
	case vocabulary != "":
		f := open(fsys, vocabulary)
		t, err = tokenizer.Read(f.name, f.data, m.Vocab)
	case meta != nil && meta.values["tokenizer.ggml.model"] == "llama":
		t, err = ggufTokenizer(meta, cfg.Vocab, cfg.BOS)
	case meta == nil && isByteLevel(cfg):
		t = tokenizer.Bytes(cfg.Vocab, cfg.BOS)
	}
	return m, t, err
}

// LoadConfig reads the config.json of a folder, as Load does: what the model is, without its weights.
func LoadConfig(folder string) (c Config, err error) {
	defer caught(&err)
	return readConfig(disk{}, filepath.ToSlash(folder)), nil
}

func readConfig(fsys fs.FS, folder string) Config {
	c := parseConfig(open(fsys, path.Join(folder, "config.json")))
	name := path.Join(folder, "generation_config.json")
	if _, absent := fs.Stat(fsys, name); absent == nil {
		c.endAt(open(fsys, name))
	}
	return c
}

// endAt adds the tokens that generation_config.json ends texts at: what ends a turn is often there alone.
func (c *Config) endAt(f file) {
	s := parseSettings(f, "generation")
	for _, token := range s.tokens("eos_token_id") {
		if !slices.Contains(c.EOS, token) {
			c.EOS = append(c.EOS, token)
		}
	}
	s.check(c)
}

// isByteLevel recognises a vocabulary of bytes by its size, with at most 16 special tokens right behind them: such a model
// needs no tokenizer file.
func isByteLevel(c Config) bool {
	return c.BOS >= 256 && c.BOS != NoToken && c.Vocab <= 256+16
}
