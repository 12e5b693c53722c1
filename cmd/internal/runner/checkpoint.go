package runner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/modelfile"
)

// parseSafetensors lists the tensors of a safetensors file: the length of the
// header (u64), the header (JSON), and the data that it describes.
func parseSafetensors(f file) *archive {
	a := newArchive(f)
	// Decoding into a map would not see a name that is there twice.
	length := a.u64("header")
	a.need(length <= uint64(a.left()), "header", "has %d bytes, the file has %d left: "+again, length, a.left())
	header := json.NewDecoder(bytes.NewReader(a.bytes("header", length)))
	first, err := header.Token()
	a.need(err == nil && first == json.Delim('{'), "header", "is not a JSON object")
	type entry struct {
		name    string
		DType   string  `json:"dtype"`
		Shape   numbers `json:"shape"`
		Offsets numbers `json:"data_offsets"`
	}
	var list []entry
	end := 0
	for header.More() {
		var e entry
		key, err := header.Token()
		name, _ := key.(string)
		if name == "__metadata__" {
			err = cmp.Or(err, eachString(header, func(string) {}))
		} else if err = cmp.Or(err, header.Decode(&e)); err == nil {
			e.name = textModel(name)
			list, end = append(list, e), slices.Max(append(e.Offsets, end))
		}
		if err != nil {
			_, why := modelfile.JSON(err)
			a.need(false, "header", "%s", why)
		}
	}
	_, err = header.Token()
	a.need(err == nil, "header", "%v", err)
	a.need(end <= a.left(), "size", "is %d bytes, and its header describes %d: "+again, len(a.data), uint64(a.at)+uint64(end))
	for _, e := range list {
		a.entry(e.name, e.DType, e.Shape, e.Offsets)
	}
	a.disjoint()
	return a
}

// parseFolder lists the tensors of a safetensors file, or of those that an index names.
func parseFolder(fsys fs.FS, f file) *archive {
	if path.Ext(f.name) == ".json" {
		return parseShards(fsys, f)
	}
	return parseSafetensors(f)
}

// parseShards lists the tensors of the files that an index names, which are beside it.
func parseShards(fsys fs.FS, index file) *archive {
	all := newArchive(index)
	files := map[string]bool{}
	err := weightMap(index.data, func(file string) { files[file] = true })
	all.need(err == nil, "index", "%v", err)
	all.need(len(files) > 0, "weight_map", "names no files: of JSON it reads model.safetensors.index.json alone; name the model's folder")
	for i, name := range slices.Sorted(maps.Keys(files)) {
		all.need(name == path.Base(name), "weight_map", "names %q, need a file beside the index", name)
		a := parseSafetensors(openPart(fsys, path.Join(path.Dir(index.name), name), i+1, len(files)))
		all.join(a)
	}
	return all
}

// weightMap calls visit with the file of every weight of an index.
func weightMap(data []byte, visit func(file string)) error {
	if !json.Valid(data) {
		return json.Unmarshal(data, new(json.RawMessage))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return cmp.Or(err, errors.New("is not a JSON object"))
	}
	for d.More() {
		key, err := d.Token()
		if err == nil && key == "weight_map" {
			err = eachString(d, visit)
		} else if err == nil {
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eachString calls visit with each value of an object of strings, and keeps none.
func eachString(d *json.Decoder, visit func(value string)) error {
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return cmp.Or(err, errors.New("is not an object of strings"))
	}
	for d.More() {
		_, err := d.Token()
		value, err2 := d.Token()
		text, ok := value.(string)
		if err = cmp.Or(err, err2); err == nil && !ok {
			err = fmt.Errorf("%v, need a string", value)
		}
		if err != nil {
			return err
		}
		visit(text)
	}
	_, err := d.Token()
	return err
}

// numbers is a short list of numbers: the dimensions of a tensor, or its offsets.
type numbers []int

// UnmarshalJSON allocates nothing for lists that are too long.
func (n *numbers) UnmarshalJSON(data []byte) error {
	const most = 8
	if count := 1 + bytes.Count(data, []byte(",")); count > most {
		return fmt.Errorf("a list of %d numbers, at most %d are accepted", count, most)
	}
	return json.Unmarshal(data, (*[]int)(n))
}

// textModel is a tensor's name in the text model alone, of which a larger model has it.
func textModel(name string) string {
	if part, ok := strings.CutPrefix(name, "model.language_model."); ok { // transformers 5
		return "model." + part
	}
	return strings.TrimPrefix(name, "language_model.")
}

// entry adds a tensor whose data, from where the header ends, are in the range of offsets.
func (a *archive) entry(name, kind string, shape, offsets []int) {
	field, o := "tensor "+name, offsets
	within := len(o) == 2 && o[0] >= 0 && o[1] >= o[0] && o[1] <= a.left()
	a.need(within, field, "data_offsets %v, need a range within the %d bytes of data", o, a.left())
	a.support(encodings[kind].group <= 1, readsOther, "tensor type %s in safetensors (of %s)", kind, name) // which is GGUF's
	a.add(tensor{name: name, encoding: kind, shape: shape, begin: a.at + o[0]})
	data := a.tensors[name].data
	a.need(data == nil || len(data) == o[1]-o[0], field, "shape %v of %s has %d bytes, data_offsets %v", shape, kind, len(data), o)
}

// parseCheckpoint reads a llama2.c checkpoint of version 0: seven i32 and then, in a fixed order, all weights in f32, those of
// a kind for all layers back to back. The size of the file follows from the header and must agree.
func parseCheckpoint(f file) (Config, *archive) {
	a := newArchive(f)
	if a.u32("header") == 0x616b3432 { // later versions begin with the letters ak42
		f.support(false, "it reads version 0, which llama2.c's export.py writes with --version 0", "version %d of the llama2.c checkpoint", a.u32("version"))
	}
	a.at = 0
	s := &settings{file: f, section: "header", values: map[string]any{"model_type": "llama", "rms_norm_eps": 1e-5}}
	for _, key := range []string{"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
		"vocab_size", "max_position_embeddings"} {
		s.values[key] = float64(number[int32](a.reader, key))
	}
	vocab := get[float64](s, "vocab_size") // is negative where the output is not the embedding
	s.values["vocab_size"], s.values["tie_word_embeddings"] = math.Abs(vocab), vocab > 0
	c := s.config()
	c.RoPE.Pairing = backend.Interleaved
	s.need(c.HeadDim*c.Heads == c.Dim, "header num_attention_heads",
		"have %d, which does not divide the hidden size %d", c.Heads, c.Dim)
	s.check(&c)

	add := func(name string, shape ...int) {
		a.add(tensor{name: name, encoding: "F32", shape: shape, begin: a.at})
		a.at += len(a.tensors[name].data)
	}
	each := func(part string, shape ...int) {
		for l := range c.Layers {
			add(fmt.Sprintf("model.layers.%d.%s.weight", l, part), shape...)
		}
	}
	add("model.embed_tokens.weight", c.Vocab, c.Dim)
	each("input_layernorm", c.Dim)
	each("self_attn.q_proj", c.Dim, c.Dim)
	each("self_attn.k_proj", c.KVHeads*c.HeadDim, c.Dim)
	each("self_attn.v_proj", c.KVHeads*c.HeadDim, c.Dim)
	each("self_attn.o_proj", c.Dim, c.Dim)
	each("post_attention_layernorm", c.Dim)
	each("mlp.gate_proj", c.Hidden, c.Dim)
	each("mlp.down_proj", c.Dim, c.Hidden)
	each("mlp.up_proj", c.Hidden, c.Dim)
	add("model.norm.weight", c.Dim)
	add("rotations", c.Context, c.HeadDim) // tables that are not needed
	if !c.Tied {
		add("lm_head.weight", c.Vocab, c.Dim)
	}
	a.need(a.left() == 0, "size", "%d bytes follow the weights that the header describes", a.left())
	return c, a
}
