package runner

import (
	"cmp"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
	"github.com/ferrumkv/ferrumkv/cmd/internal/tokenizer"
)

// Header is what a model is, as the headers of its files say.
type Header struct {
	Config
	Weights int // bytes of the files of the weights; 0: there are none, or they cannot be read
}

// LoadHeader reads what a model is, without its weights: the config.json of a folder and the names and shapes of its tensors, or the header of a
// .gguf or .bin file. A folder without config.json is judged as Load does that. Of what Load refuses it says what that is, as far as the shape of attention is known all the same.
func LoadHeader(name string) (h Header, cannot []error, err error) {
	d := &disk{}
	defer func() { err = cmp.Or(err, d.close()) }()
	defer faulted(name, &err)()
	defer caught(&err)
	name = filepath.ToSlash(name)
	folder, weights := name, ""
	if there(d, path.Join(name, "config.json")) {
		weights = locate(d, name, &cannot)
	} else {
		weights = find(d, name)
		folder = path.Dir(weights)
	}
	switch form(d, weights) {
	case ".gguf":
		var a *archive
		h.Config, a = sizesOfGGUF(d, openWeights(d, weights), &cannot)
		h.Weights = a.size()
	case ".bin":
		var a *archive
		h.Config, a = parseCheckpoint(openWeights(d, weights))
		h.Weights = a.size()
		told(&cannot, func() { h.vocabulary(d, weights, "") })
	default:
		h.Config = readConfig(d, folder, &cannot)
		if weights != "" {
			told(&cannot, func() { h.judge(d, folder, weights, &cannot) })
		} else if len(cannot) == 0 {
			cannot = append(cannot, modelfile.ErrUnsupported{File: name, Feature: "a folder without weights", Remedy: "it reads model.safetensors, or the files that model.safetensors.index.json names"})
		}
	}
	return h, cannot, nil
}

// sizesOfGGUF is LoadHeader of a GGUF file, the others of which are beside it.
func sizesOfGGUF(fsys fs.FS, f file, cannot *[]error) (Config, *archive) {
	meta, a := parseGGUFs(fsys, f)
	meta.cannot = cannot
	c := ggufConfig(meta, a)
	a.judged(cannot)
	if len(*cannot) == 0 {
		a.surveyed(c, cannot)
		meta.words()
	}
	return c, a
}

// judge says of the weights and the vocabulary of a folder why they are not run.
func (h *Header) judge(fsys fs.FS, folder, weights string, cannot *[]error) {
	a := parseFolder(fsys, openWeights(fsys, weights))
	h.Weights = a.size()
	if len(*cannot) > 0 { // of another family there is nothing to compare them with
		return
	}
	a.apart(h.ScaleBlock)
	a.judged(cannot)
	if len(*cannot) == 0 {
		a.surveyed(h.Config, cannot)
		h.vocabulary(fsys, weights, vocabularyIn(fsys, folder))
	}
}

// vocabulary gives up without one that can be used.
func (h *Header) vocabulary(fsys fs.FS, weights, name string) {
	if name != "" {
		f := open(fsys, name)
		_, err := tokenizer.Read(f.name, f.data, h.Vocab)
		check(err)
	} else if !isByteLevel(h.Config) {
		noVocabulary(fsys, weights, h.Vocab)
	}
}

// told runs f, and makes an error of it one of what cannot be run: the size of a cache does not depend on it.
func told(cannot *[]error, f func()) {
	err := func() (err error) {
		defer caught(&err)
		f()
		return nil
	}()
	if err != nil {
		*cannot = append(*cannot, err)
	}
}
