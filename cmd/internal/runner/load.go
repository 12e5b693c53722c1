package runner

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
)

// Load reads a model from disk. path is a folder with config.json and model.safetensors or the files of
// model.safetensors.index.json, a .safetensors file with config.json beside it, a .gguf file, or a .bin checkpoint of llama2.c.
// vocabulary is a file that tokenizer.Read takes; "" is what the model brings: tokenizer.json, or else tokenizer.bin, beside
// config.json, the vocabulary inside of a GGUF file, or bytes. A model that brings none that can be used is refused.
//
// Unless it is nil, progress receives how many bytes of weights are ready, and of how many, as they are packed or looked at.
//
// Errors are ErrFile and ErrUnsupported of modelfile, or those of the file system. Each begins with the path of the file
// that it is about. The model's weights are read from its files when they are first multiplied by, so the files must not change until
// Model.Close, which the caller owes.
func Load(path, vocabulary string, progress func(done, total int)) (*Model, *tokenizer.Tokenizer, error) {
	return loadDisk(path, request{vocabulary: vocabulary, needed: true, progress: progress})
}

// LoadWeights is Load of a model without its tokenizer, for texts of token numbers.
func LoadWeights(path string, progress func(done, total int)) (*Model, error) {
	m, _, err := loadDisk(path, request{progress: progress})
	return m, err
}

// LoadTokenizer is Load of a model's tokenizer alone, without looking at weights.
func LoadTokenizer(path, vocabulary string) (*tokenizer.Tokenizer, error) {
	_, t, err := loadDisk(path, request{vocabulary: vocabulary, needed: true, weightless: true})
	return t, err
}

// request is what to load besides weights.
type request struct {
	vocabulary string // the file of it; "": what the model brings
	needed     bool   // a model without a vocabulary is refused
	weightless bool   // there is no model but its tokenizer
	progress   func(done, total int)
}

func loadDisk(path string, want request) (m *Model, t *tokenizer.Tokenizer, err error) {
	d := &disk{}
	defer func() {
		if m == nil {
			err = cmp.Or(err, d.close())
		}
	}()
	defer faulted(path, &err)()
	if m, t, err = load(d, filepath.ToSlash(path), want); m != nil {
		m.path, m.end = path, d.close
	}
	return m, t, err
}

// faulted makes an error of memory that could not be read from the file that it is mapped from, in the function that defers what it returns.
func faulted(path string, err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		switch e := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }:
			*err = modelfile.ErrFile{File: path, Field: "contents", Why: "cannot be read: the file became shorter meanwhile, or its disk failed"}
		default:
			panic(e)
		}
	}
}

// guarded runs f, which may read from the files of a path.
func guarded(path string, f func()) (err error) {
	defer faulted(path, &err)()
	f()
	return nil
}

// disk is the files of this machine by the paths that its user writes: os.DirFS
// knows, and names in errors, only a path below its folder.
type disk struct{ ends []func() error }

func (*disk) Open(name string) (fs.File, error)     { return os.Open(name) }
func (*disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// mapped is the contents of a file of weights until close.
func (d *disk) mapped(name string) ([]byte, error) {
	data, end, err := modelfile.Map(name)
	if err == nil {
		d.ends = append(d.ends, end)
	}
	return data, err
}

func (d *disk) close() (err error) {
	for _, end := range d.ends {
		err = errors.Join(err, end())
	}
	d.ends = nil
	return err
}

// LoadFS is Load from any file system, such as that of a model that is embedded in the program. The tokenizer is nil where the model brings
// none that can be used.
func LoadFS(fsys fs.FS, name string) (*Model, *tokenizer.Tokenizer, error) {
	return load(fsys, name, request{})
}

func load(fsys fs.FS, name string, want request) (m *Model, t *tokenizer.Tokenizer, err error) {
	defer caught(&err)
	name = find(fsys, name)
	f, vocabulary := openWeights(fsys, name), want.vocabulary
	var cfg Config
	var a *archive
	var meta *settings // of a GGUF file
	switch folder := path.Dir(name); form(fsys, name) {
	case ".safetensors", ".json":
		a = parseFolder(fsys, f)
		cfg = readConfig(fsys, folder, nil)
		a.apart(cfg.ScaleBlock)
		vocabulary = cmp.Or(vocabulary, vocabularyIn(fsys, folder))
	case ".gguf":
		meta, a = parseGGUFs(fsys, f)
		cfg = ggufConfig(meta, a)
	case ".bin":
		cfg, a = parseCheckpoint(f)
	}
	a.judged(nil)
	a.surveyed(cfg, nil)
	switch {
	case vocabulary != "":
		f := open(fsys, vocabulary)
		t, err = tokenizer.Read(f.name, f.data, cfg.Vocab)
	case meta != nil && meta.values["tokenizer.ggml.model"] == "llama":
		t, err = ggufTokenizer(meta, cfg.Vocab, cfg.BOS)
	case meta != nil && meta.values["tokenizer.ggml.model"] == "gpt2":
		t, err = ggufByteLevel(meta, cfg.Vocab, cfg.BOS)
	case meta == nil && isByteLevel(cfg):
		t = tokenizer.Bytes(cfg.Vocab, cfg.BOS)
	}
	if err != nil { // before the weights are read, which takes longer
		return nil, nil, err
	}
	if t == nil && want.needed {
		noVocabulary(fsys, name, cfg.Vocab)
	}
	if want.weightless {
		return nil, t, nil
	}
	a.progress = want.progress
	return a.model(cfg), t, nil
}

// vocabularyIn is the file of a folder that has its vocabulary; "": there is none.
func vocabularyIn(fsys fs.FS, folder string) string {
	for _, name := range []string{"tokenizer.json", "tokenizer.bin"} {
		if name = path.Join(folder, name); there(fsys, name) {
			return name
		}
	}
	return ""
}

// find is the file of weights that a path stands for. It refuses one that stands for none that is read.
func find(fsys fs.FS, name string) string {
	f := file{name: name}
	info, err := fs.Stat(fsys, name)
	f.open(err)
	if info.IsDir() {
		return locate(fsys, name, nil)
	}
	switch ext := form(fsys, name); ext {
	case ".safetensors", ".json", ".gguf", ".bin":
	default:
		(&settings{file: f}).otherwise(path.Dir(name), []string{path.Base(name)}, otherFormats)
		f.refuse("a name that ends in "+cmp.Or(ext, "no extension"), "it reads folders with config.json and model.safetensors, and files that end in .safetensors, .gguf or .bin (of llama2.c)")
	}
	return name
}

// form is the format of a file as the ending of its name: that of GGUF by what the file begins with, for some are named by their hash.
func form(fsys fs.FS, name string) string {
	if f, err := fsys.Open(name); err == nil {
		defer f.Close()
		var begin [4]byte
		if _, err := io.ReadFull(f, begin[:]); err == nil && string(begin[:]) == "GGUF" {
			return ".gguf"
		}
	}
	return path.Ext(name)
}

func there(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// readConfig reads a folder's configuration. What the runner cannot do is an error unless there is room for it.
func readConfig(fsys fs.FS, folder string, cannot *[]error) Config {
	c := parseConfig(open(fsys, path.Join(folder, "config.json")), cannot)
	if name := path.Join(folder, "generation_config.json"); there(fsys, name) {
		s := parseSettings(open(fsys, name), "generation")
		for _, token := range s.tokens("eos_token_id") { // what ends a turn is often there alone
			if !slices.Contains(c.EOS, token) {
				c.EOS = append(c.EOS, token)
			}
		}
		s.check(&c)
	}
	return c
}

// isByteLevel recognises a vocabulary of bytes by its size, with at most 16 special tokens right after them: such a model
// needs no tokenizer file.
func isByteLevel(c Config) bool {
	return c.BOS >= 256 && c.BOS != NoToken && c.Vocab <= 256+16
}

// file is a model file in memory. Every length found inside is held against what is there before memory is reserved for it.
type file struct {
	name string
	data []byte
}

// need gives the file up unless a field of it is right.
func (f file) need(right bool, field, format string, a ...any) {
	if !right {
		check(modelfile.ErrFile{File: f.name, Field: field, Why: fmt.Sprintf(format, a...)})
	}
}

// support gives a sound file up unless the runner has what it asks for, and says what to do.
func (f file) support(has bool, remedy, format string, a ...any) {
	if !has {
		f.refuse(fmt.Sprintf(format, a...), remedy)
	}
}

// refuse gives a sound file up for a feature, and says what to do.
func (f file) refuse(feature, remedy string) {
	check(modelfile.ErrUnsupported{File: f.name, Feature: feature, Remedy: remedy})
}

// open reads a regular file.
func open(fsys fs.FS, name string) file {
	return opened(fsys, name, fs.ReadFile)
}

// openWeights is open for files that are large, of which what is looked at is read if they are on this machine.
func openWeights(fsys fs.FS, name string) file {
	return opened(fsys, name, func(fsys fs.FS, name string) ([]byte, error) {
		if d, ok := fsys.(*disk); ok {
			return d.mapped(name)
		}
		return fs.ReadFile(fsys, name)
	})
}

func opened(fsys fs.FS, name string, read func(fs.FS, string) ([]byte, error)) file {
	f := file{name: name}
	info, err := fs.Stat(fsys, name)
	if err == nil {
		f.need(info.Mode().IsRegular(), "type", "is not a regular file")
		f.data, err = read(fsys, name)
	}
	f.open(err)
	f.need(!bytes.HasPrefix(f.data, []byte("version https://git-lfs")), "contents", "are a pointer of Git LFS in place of the file: run git lfs pull in its folder, or download the file itself")
	return f
}

// open gives the file up for an error of the file system.
func (f file) open(err error) {
	if failed, ok := errors.AsType[*fs.PathError](err); ok { // the system call that failed says nothing to a user
		err = fmt.Errorf("%s: %w", f.name, failed.Err)
	}
	check(err)
}

// reader reads little-endian fields one after another.
type reader struct {
	file
	at int
}

func (r *reader) left() int { return len(r.data) - r.at }

// bytes is the next n bytes, a part of the file.
func (r *reader) bytes(field string, n uint64) []byte {
	if n > uint64(r.left()) { // what need says would take memory for each field
		r.need(false, field, "needs %d bytes at offset %d, the file has %d left", n, r.at, r.left())
	}
	r.at += int(n)
	return r.data[r.at-int(n) : r.at]
}

type numeric interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

func number[T numeric](r *reader, field string) (v T) {
	_, _ = binary.Decode(r.bytes(field, uint64(binary.Size(v))), le, &v)
	return v
}

func (r *reader) u32(field string) uint32 { return number[uint32](r, field) }
func (r *reader) u64(field string) uint64 { return number[uint64](r, field) }

// string is a text after its length (u64), as GGUF has it.
func (r *reader) string(field string) string { return string(r.bytes(field, r.u64(field))) }
