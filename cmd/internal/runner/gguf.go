package runner

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/cmd/internal/ggml"
)

const ggufString, ggufArray = 8, 9

// No model has more entries. In memory an entry takes several times the bytes of the shortest in a file.
const maxGGUFKeys, maxGGUFTensors = 1 << 16, 1 << 17

// parseGGUFs is parseGGUF, and of a model that is split into several files reads all of them.
func parseGGUFs(fsys fs.FS, first file) (*settings, *archive) {
	meta, all := parseGGUF(first)
	count := get(meta, "split.count", 1)
	if count <= 1 {
		return meta, all
	}
	stem, numbered := strings.CutSuffix(first.name, fmt.Sprintf("-00001-of-%05d.gguf", count))
	meta.need(numbered && get(meta, "split.no", 0) == 0, "metadata split.no", "is a part of %d: name the first one, which ends in -00001-of-%05d.gguf", count, count)
	meta.need(count < 1e5, "metadata split.count", "is %d", count)
	for i := 2; i <= count; i++ {
		_, a := parseGGUF(openPart(fsys, fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i, count), i, count))
		all.join(a)
	}
	want := get(meta, "split.tensors.count", len(all.tensors))
	meta.need(want == len(all.tensors), "metadata split.tensors.count", "is %d, the %d files have %d", want, count, len(all.tensors))
	return meta, all
}

// parseGGUF reads the header of a GGUF file of version 2 or 3, little-endian:
// metadata, and the place and shape of every tensor.
func parseGGUF(f file) (*settings, *archive) {
	a := newArchive(f)
	a.names, a.gguf = ggufWeights, true
	r := a.reader
	r.need(string(r.bytes("magic", 4)) == "GGUF", "magic", "is not that of a GGUF file")
	version := r.u32("version")
	f.support(version != 2<<24 && version != 3<<24, "it reads little-endian files, which almost all are: llama.cpp's gguf_convert_endian.py FILE LITTLE makes one of this one", "a big-endian GGUF file")
	f.support(version == 2 || version == 3, "it reads versions 2 and 3: files of the same model that were made since October 2023 have them", "GGUF version %d", version)
	tensors, keys := r.u64("tensor count"), r.u64("metadata count")
	r.need(keys <= maxGGUFKeys, "metadata count", "is %d, at most %d are accepted", keys, maxGGUFKeys)
	r.need(tensors <= maxGGUFTensors, "tensor count", "is %d, at most %d are accepted", tensors, maxGGUFTensors)
	meta := &settings{file: f, section: "metadata", values: map[string]any{}, names: ggufNames}
	for range keys {
		key := r.string("metadata key")
		field := "metadata " + key
		_, twice := meta.values[key]
		r.need(!twice, field, "is there twice")
		meta.values[key] = r.value(field, r.u32(field))
	}
	var list []tensor // which begin from where the data do, known at the end
	for range tensors {
		list = append(list, r.tensor())
	}
	align := get(meta, "general.alignment", 32)
	aligns := align >= 1 && align <= 1<<20 && align&(align-1) == 0
	r.need(aligns, "metadata general.alignment", "have %d, need a power of two up to %d", align, 1<<20)
	start := (r.at + align - 1) &^ (align - 1)
	end := 0
	for _, t := range list {
		if size, ok := t.size(); ok {
			end = max(end, t.begin+min(size, math.MaxInt/4))
		}
	}
	a.need(end == 0 || end <= len(a.data)-start, "size", "is %d bytes, and its header describes %d: "+again, len(a.data), start+end)
	for _, t := range list {
		r.need(t.begin&(align-1) == 0, "tensor "+t.name, "offset %d is no multiple of the alignment %d", t.begin, align)
		t.begin += start
		a.add(t)
	}
	a.disjoint()
	return meta, a
}

// value reads a metadata value of a type, as settings hold it.
func (r *reader) value(field string, kind uint32) any {
	if number, ok := ggufNumbers[kind]; ok {
		return number.read(r.bytes(field, uint64(number.bytes)))
	}
	if kind == ggufString {
		return r.string(field)
	}
	r.need(kind == ggufArray, field, "has unknown type %d", kind)
	kind, n := r.u32(field), r.u64(field)
	r.need(kind != ggufArray, field, "is an array of the nested type %d", kind)
	// An element is at least a byte.
	r.need(n <= uint64(r.left()), field, "is an array of %d elements, the file has %d bytes left", n, r.left())
	list := ggufList{kind, int(n), *r}
	if kind == ggufString {
		for range n {
			r.bytes(field, r.u64(field))
		}
		return list
	}
	number, ok := ggufNumbers[kind]
	r.need(ok, field, "has unknown type %d", kind)
	r.bytes(field, n*uint64(number.bytes))
	return list
}

// tensor reads a tensor's description, in which the contiguous dimension is first.
func (r *reader) tensor() tensor {
	t := tensor{name: r.string("tensor name")}
	field := "tensor " + t.name
	// What no file holds stays far from overflow.
	size := func() int { return int(min(r.u64(field), math.MaxInt/2)) }
	dims := r.u32(field)
	r.need(dims <= 4, field, "has %d dimensions, at most 4 are accepted", dims)
	for range dims {
		t.shape = append(t.shape, size())
	}
	slices.Reverse(t.shape)
	kind := r.u32(field)
	t.encoding, t.begin = cmp.Or(ggml.Types[kind].Name, fmt.Sprintf("number %d", kind)), size()
	return t
}

// ggufNames is what GGUF's metadata call the settings of config.json.
var ggufNames = map[string]string{
	"model_type": "general.architecture", "max_position_embeddings": "llama.context_length",
	"hidden_size": "llama.embedding_length", "intermediate_size": "llama.feed_forward_length",
	"num_hidden_layers": "llama.block_count", "num_attention_heads": "llama.attention.head_count",
	"num_key_value_heads": "llama.attention.head_count_kv", "head_dim": "llama.attention.key_length",
	"rms_norm_eps": "llama.attention.layer_norm_rms_epsilon", "rope_theta": "llama.rope.freq_base",
	"bos_token_id": "tokenizer.ggml.bos_token_id", "eos_token_id": "tokenizer.ggml.eos_token_id",
	"sliding_window": "llama.attention.sliding_window", "num_local_experts": "llama.expert_count", "num_experts_per_tok": "llama.expert_used_count",
	"num_experts": "llama.expert_count", "moe_intermediate_size": "llama.expert_feed_forward_length", "shared_expert_intermediate_size": "llama.expert_shared_feed_forward_length",
	"sliding_window_pattern": "llama.attention.sliding_window_pattern",
	"attn_logit_softcapping": "llama.attn_logit_softcapping", "final_logit_softcapping": "llama.final_logit_softcapping",
	"rope_scaling.beta_fast": "llama.rope.scaling.yarn_beta_fast", "rope_scaling.beta_slow": "llama.rope.scaling.yarn_beta_slow",
	"rope_local_base_freq": "llama.rope.freq_base_swa", "rope_scaling.rope_type": "llama.rope.scaling.type", "rope_scaling.factor": "llama.rope.scaling.factor",
	"rope_scaling.original_max_position_embeddings": "llama.rope.scaling.original_context_length",
}

// ggufConfig is the shape of the model in a GGUF file, whose weights are read by the names that it has there.
func ggufConfig(meta *settings, a *archive) Config {
	if shape := a.tensors["token_embd.weight"].shape; len(shape) == 2 {
		meta.values["vocab_size"] = float64(shape[0])
	} else if tokens, ok := meta.values["tokenizer.ggml.tokens"].(ggufList); ok {
		meta.values["vocab_size"] = float64(tokens.n)
	}
	_, untied := a.tensors["output.weight"]
	_, biased := a.tensors["blk.0.attn_q.bias"] // no setting says so
	meta.values["tie_word_embeddings"], meta.values["attention_bias"] = !untied, biased
	meta.assume(map[string]any{"max_position_embeddings": 2048.0, "rms_norm_eps": 1e-6})
	meta.specials()
	meta.arch = get[string](meta, "model_type")
	arch := ggufArchitectures[meta.arch]
	if a.names = arch.names; arch.names == nil {
		meta.refuse("architecture "+meta.arch+" in a GGUF file", "of GGUF files it runs "+strings.Join(ggufRun(), ", "))
		a.names = ggufWeights
	}
	meta.familiar(arch.family)
	if meta.arch == "llama" {
		meta.only(map[string]any{"llama.attention.sliding_window": 0.0})
	}
	differ := meta.perLayer()
	c := meta.config()
	for l := range max(len(c.Blocks), 1) {
		_, c.block(l).OBias = a.tensors["blk.0.attn_output.bias"]
	}
	c.differ(differ)
	for l := range max(len(c.Blocks), 1) {
		r := &c.block(l).RoPE
		if r.Dims = meta.size("llama.rope.dimension_count", 1<<16, c.HeadDim); arch.neighbours {
			r.Pairing = backend.Interleaved
		}
	}
	meta.ends(&c)
	if arch.adjust != nil {
		arch.adjust(meta, a, &c)
	}
	meta.support(get(meta, "llama.attention.value_length", c.HeadDim) == c.HeadDim || c.Latent != (latent{}), "it runs models where both are the same", "a value length other than the key length")
	meta.only(map[string]any{"llama.rope.scaling.attn_factor": 1.0, "llama.rope.scaling.yarn_log_multiplier": 0.0, "llama.attention.causal": 1.0, "llama.rope.scale_linear": 1.0,
		"llama.rope.scaling.yarn_ext_factor": 1.0, "llama.rope.scaling.yarn_attn_factor": 1.0, "llama.attention.max_alibi_bias": 0.0, "llama.attention.clamp_kqv": 0.0, "llama.use_parallel_residual": 0.0,
		"llama.embedding_scale": 1.0, "llama.residual_scale": 1.0, "llama.logit_scale": 1.0, "llama.expert_weights_scale": 1.0, "llama.expert_group_count": 1.0})
	usual := cmp.Or(float64(c.block(0).Scale), 1/math.Sqrt(float64(c.HeadDim)))
	scale := get(meta, "llama.attention.scale", usual)
	meta.support(math.Abs(scale-usual) < 1e-6*usual, "a file that llama.cpp's convert_hf_to_gguf.py makes of the original model has that scale, or none",
		"%s %v, where its architecture has %.6g,", meta.own("llama.attention.scale"), scale, usual)
	if _, scaled := a.tensors["rope_freqs.weight"]; scaled { // how GGUF stores Llama 3's scaling
		meta.support(c.Blocks == nil, "it runs models where all layers are alike", "rope_freqs.weight of layers that are not alike")
		factors := a.dense("rope_freqs.weight", c.RoPE.Dims/2).data
		meta.need(len(factors) > 0, "tensor rope_freqs.weight", "has no factors")
		c.RoPE = meta.llama3(c.RoPE, c.HeadDim, factors)
	}
	meta.check(&c)
	return c
}

// llama3 is a rotary embedding whose frequencies are those of r divided by factors. They are Llama 3's for some length of the
// context that it was first trained with, which is not in the file.
func (s *settings) llama3(r backend.RoPE, headDim int, factors []float32) backend.RoPE {
	plain, err := r.Resolve(headDim)
	s.need(err == nil, "rope", "%v", err)
	for original := 64; original <= maxContext; original *= 2 {
		scaled := r
		scaled.Scaling, scaled.Factor, scaled.OriginalContext = backend.Llama3Scaling, float64(slices.Max(factors)), original
		if scaled, err = scaled.Resolve(headDim); err != nil {
			break
		}
		same := true
		for i, f := range factors {
			same = same && math.Abs(plain.Frequency(i)/scaled.Frequency(i)-float64(f)) < 1e-4*float64(f)
		}
		if same {
			return scaled
		}
	}
	s.refuse("rope_freqs.weight with other factors than Llama 3's", "it reads the factors of Llama 3.1 and later; the folder of the original model names its scaling in config.json, of which it runs "+listed(scalings))
	return r
}
