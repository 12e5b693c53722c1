package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
)

// What to do with weights that are not read. Nothing but a file's header is looked at before it is said.
const (
	readsGGUF  = "of a GGUF file it reads %s: llama.cpp's llama-quantize converts other types into one of these (llama-quantize --allow-requantize IN.gguf OUT.gguf Q4_K_M), and loses some precision once more"
	readsOther = "it reads F32, F16, BF16, F8_E4M3 with a weight_scale_inv, and the experts of gpt-oss in MXFP4: most models are published in BF16, too, often under the same name without the quantization in it"
)

// reads is what to do for an archive.
func (a *archive) reads() string {
	if a.gguf {
		var types []string
		for _, t := range ggml.Types {
			if t.Decode != nil {
				types = append(types, t.Name)
			}
		}
		slices.Sort(types)
		return named(readsGGUF, strings.Join(types, ", "))
	}
	return readsOther
}

// judged refuses an archive with weights in types that are not decoded, all of which it names. Integers are no weights.
func (a *archive) judged(cannot *[]error) {
	count := map[string]int{}
	for name, t := range a.tensors {
		if strings.HasSuffix(name, ".qweight") { // of AutoGPTQ and AutoAWQ, which early on said so in a file of their own
			(&settings{file: a.file, cannot: cannot}).refuse("a model with weights quantized by gptq or awq (tensor "+name+")", without("-GPTQ or -AWQ"))
			return
		}
		if !t.known() && (!strings.HasPrefix(t.encoding, "I") || strings.HasPrefix(t.encoding, "IQ")) {
			count[t.encoding]++
		}
	}
	delete(count, "BOOL")
	if len(count) == 0 {
		return
	}
	var types []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		types = append(types, fmt.Sprintf("%s (%d of %d tensors)", name, count[name], len(a.tensors)))
	}
	(&settings{file: a.file, cannot: cannot}).refuse("tensor type "+strings.Join(types, ", "), a.reads())
}

// surveyed judges weights by the names and shapes of their tensors, before any is decoded: what is missing or has another shape is an error, and so
// is a tensor that the model's configuration has no use for, without which it would compute something else.
func (a *archive) surveyed(cfg Config, cannot *[]error) {
	header := *a
	header.tensors, header.found, header.header = maps.Clone(a.tensors), maps.Clone(a.found), true
	err := header.fits(cfg)
	if broken, ok := errors.AsType[modelfile.ErrFile](err); ok && cannot != nil { // the size of a cache does not depend on weights
		*cannot = append(*cannot, modelfile.ErrUnsupported{File: broken.File, Feature: fmt.Sprintf("a file whose weights are not those of its header (%s: %s)", broken.Field, broken.Why),
			Remedy: "a whole file has them: download it again, or another one of the same model"})
		return
	}
	check(err)
	var rest []string
	for _, name := range slices.Sorted(maps.Keys(a.tensors)) {
		if !header.found[name] && a.counts(name, cfg.Layers) {
			rest = append(rest, name)
		}
	}
	if len(rest) > 0 {
		remedy := "the model would write other texts without that tensor. llama.cpp's convert_hf_to_gguf.py writes none for the architectures that run here: convert the original model with it, or take another GGUF file of the same model"
		if !a.gguf {
			remedy = "the model would write other texts without that tensor: compare config.json with that of the model that the weights are of"
		}
		(&settings{file: a.file, cannot: cannot}).refuse(fmt.Sprintf("tensor %s (one of %d that its architecture does not have)", rest[0], len(rest)), remedy)
	}
}

// counts reports whether a tensor that has no use would change what is computed. In a GGUF file all would but angles, which are computed; others have much
// that is for training or other parts of a model, so of them it is only what layers might add to what they have.
func (a *archive) counts(name string, layers int) bool {
	if a.gguf {
		return !strings.HasSuffix(name, ".attn_rot_embd.weight")
	}
	in, ok := strings.CutPrefix(name, "model.layers.")
	number, part, _ := strings.Cut(in, ".")
	layer, err := strconv.Atoi(number)
	if !ok || err != nil || layer >= layers { // those after the last predict more tokens
		return false
	}
	return strings.HasSuffix(part, ".bias") || strings.Contains(part, "q_norm.") || strings.Contains(part, "k_norm.") || strings.HasSuffix(part, ".sinks")
}

// fits is what is wrong with the weights for a configuration.
func (a *archive) fits(cfg Config) (err error) {
	defer caught(&err)
	a.model(cfg)
	return nil
}

// locate is the file of weights in a folder. Where there is none that is read, it says what is there instead: in cannot, if there is room for it. A folder with
// none at all has a size, too.
func locate(fsys fs.FS, folder string, cannot *[]error) string {
	const one, index = "model.safetensors", "model.safetensors.index.json"
	for _, name := range []string{one, index} {
		if name = path.Join(folder, name); there(fsys, name) {
			return name
		}
	}
	f := settings{file: file{name: folder}, cannot: cannot}
	entries, err := fs.ReadDir(fsys, folder)
	f.need(err == nil, "folder", "%v", err)
	var names, models []string // those that can be opened, and GGUF files among them
	for _, e := range entries {
		if there(fsys, path.Join(folder, e.Name())) {
			names = append(names, e.Name())
		}
	}
	for _, name := range names {
		if path.Ext(name) == ".gguf" {
			models = append(models, name)
		}
	}
	const part = "*-[0-9][0-9][0-9][0-9][0-9]-of-*.gguf"
	if len(models) == 1 {
		if split, _ := path.Match(part, models[0]); !split {
			return path.Join(folder, models[0])
		}
	}
	if f.otherwise(folder, names, slices.Concat([]other{
		{"adapter_model.*", "a LoRA adapter (%s), which is no whole model,", merge},
		{"model-*-of-*.safetensors", "a folder with %s and without model.safetensors.index.json", "that file says which weights are in which of the parts: download it from where the parts are"},
		{"*-00001-of-*.gguf", "a folder of GGUF files", "name the first of them, %s"},
		{part, "a folder with a later part of a GGUF model, without its first", "download all parts into this folder: %s is one"},
		{"*.gguf", "a folder of GGUF files", "name one of them, such as %s"},
		{"consolidated*.safetensors", "the format of Mistral's own releases (%s)", "the same folder on Hugging Face has model-*.safetensors and config.json, which it reads"},
		{"pytorch_model*.bin", "PyTorch's pickle format (%s)", "it reads safetensors: most models have them, too, and transformers writes them (AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(OUT))"},
	}, otherFormats, []other{
		{"*.safetensors", "a folder whose weights are in %s", "name that file, with config.json beside it"},
	})) {
		return ""
	}
	f.support(cannot != nil, "it reads "+one+", or the files that "+index+" names, with config.json beside them", "a folder without weights")
	return ""
}

// other is files that are not read, with the name of the first that matches in what is said.
type other struct{ pattern, feature, remedy string }

var otherFormats = []other{
	{"*.pth", "PyTorch's pickle format (%s)", "it reads safetensors, as Hugging Face has the same models"},
	{"*.pt", "PyTorch's pickle format (%s)", "it reads safetensors, as Hugging Face has the same models"},
	{"*onnx", "a model in ONNX (%s)", "ONNX is a graph for another runtime: take the safetensors or a GGUF of the same model"},
}

// otherwise refuses the first of other files that is among names, and reports whether it did.
func (s *settings) otherwise(folder string, names []string, all []other) bool {
	for _, o := range all {
		for _, name := range names {
			if match, _ := path.Match(o.pattern, name); match {
				s.refuse(named(o.feature, name), named(o.remedy, path.Join(folder, name)))
				return true
			}
		}
	}
	return false
}

// without is what to do with a model that was quantized, as the end of its name says.
func without(ending string) string {
	return "the model that it was made of is what it reads, in F32, F16 or BF16 (its name is that of this one without " + ending + ", as a rule), or a GGUF of it, such as in Q4_K_M"
}

// noVocabulary refuses the weights of a file whose tokens are not bytes, for which nothing brings a vocabulary. It names one that is there and is not read.
func noVocabulary(fsys fs.FS, name string, tokens int) {
	f, folder := file{name: name}, path.Dir(name)
	for _, other := range []string{"tokenizer.model", "tiktoken.model"} {
		if other = path.Join(folder, other); there(fsys, other) && path.Ext(name) != ".gguf" {
			f.refuse("a vocabulary in "+other, "it reads tokenizer.json: put that of the same model into the folder (transformers writes it: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)), or name it with --tokenizer")
		}
	}
	f.refuse(fmt.Sprintf("a model without a vocabulary, whose %d tokens are not bytes,", tokens), "put its tokenizer.json into the folder, or name its tokenizer file with --tokenizer")
}

// named puts a name where a text has a place for it.
func named(text, name string) string { return strings.ReplaceAll(text, "%s", name) }

// quantized reads how the weights were quantized, or refuses the method.
func (s *settings) quantized(c *Config) {
	field, value := s.lookup("quantization_config")
	config, _ := value.(map[string]any)
	if mlx, _ := s.values["quantization"].(map[string]any); mlx["bits"] != nil { // beside quantization_config, or alone
		s.refuse("a model with weights quantized by MLX (configuration quantization)", without("-4bit or the like"))
		return
	}
	if value == nil {
		return
	}
	method, known := config["quant_method"].(string)
	switch {
	case method == "mxfp4" && c.Experts.ByTurns: // of its experts alone
		c.Experts.Coded = true
		return
	case method == "fp8":
		if size := config["weight_block_size"]; size != nil {
			list, _ := size.([]any)
			s.need(len(list) == 2, field, "has weight_block_size %v, need two numbers", size)
			for i := range c.ScaleBlock {
				n := as[int](s, field, list[i])
				s.need(n > 0, field, "has weight_block_size %v, need positive numbers", size)
				c.ScaleBlock[i] = n
			}
		}
		return
	case !known:
		method = "an unknown method"
	}
	remedy := readsOther
	switch method {
	case "bitsandbytes":
		remedy = without("-bnb-4bit")
	case "gptq", "awq", "compressed-tensors", "aqlm", "hqq", "eetq", "quanto":
		remedy = without("-" + strings.ToUpper(method))
	}
	s.refuse(fmt.Sprintf("a model with weights quantized by %s (%s)", method, field), remedy)
}
