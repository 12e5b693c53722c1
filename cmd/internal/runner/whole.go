package runner

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
)

// again is what to do about a file that ends too early.
const again = "it was not downloaded to its end; download it again"

// openPart opens a file of weights that is a part, counted from 1, of a model in several files.
func openPart(fsys fs.FS, name string, part, count int) file {
	if _, err := fs.Stat(fsys, name); errors.Is(err, fs.ErrNotExist) {
		file{name: name}.need(false, "file", "is missing, part %d of the %d that the model is in: download it into the folder of the others", part, count)
	}
	return openWeights(fsys, name)
}

// merge is what to do with an adapter.
const merge = "merge it into the model that adapter_config.json names, by PEFT's merge_and_unload, and save that"

// complete gives a file of weights up that is empty, or something else in its place.
func (f file) complete() {
	f.support(path.Base(f.name) != "adapter_model.safetensors", merge, "a LoRA adapter, which is no whole model,")
	f.need(len(f.data) > 0, "contents", "are empty: download the file again")
	begin := bytes.ToLower(bytes.TrimSpace(f.data[:min(len(f.data), 64)]))
	page := bytes.HasPrefix(begin, []byte("<!doctype")) || bytes.HasPrefix(begin, []byte("<html"))
	f.need(!page, "contents", "are a page of a web site (HTML) in place of the file: download the file itself, such as by hf download")
}
