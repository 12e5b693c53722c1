package runner

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/stretchr/testify/require"
)

// Whatever a file holds, its reader gives a model that fits its configuration or
// a typed error, and reserves memory in proportion to the file. (Run them with
// -fuzzminimizetime=10x: by default a fuzzer spends most of its time on making
// interesting files small.)

// tiny is the smallest model: the shorter the seed, the more often a mutation
// hits a field that matters.
func tiny() Config {
	c := craftConfig(2)
	c.Heads, c.HeadDim, c.Layers = 1, 2, 1
	return c
}

func fuzzReader(f *testing.F, name string, seed []byte, read func(file) error) {
	f.Add(seed)
	f.Add(seed[:len(seed)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, len(data), func() { typed(t, read(file{name, data})) })
	})
}

func FuzzSafetensors(f *testing.F) {
	cfg := tiny()
	var parts []part // with scales apart
	for _, a := range craftArrays(cfg, huggingFace) {
		if len(a.shape) == 1 {
			parts = append(parts, part{a.name, "F32", a.shape, encode("F32", a.data)})
			continue
		}
		parts = append(parts, part{a.name, "F8_E4M3", a.shape, counting(len(a.data))},
			part{a.name + "_scale_inv", "F32", []int{(a.shape[0] + 1) / 2, (a.shape[1] + 1) / 2}, make([]byte, 4*((a.shape[0]+1)/2)*((a.shape[1]+1)/2))})
	}
	scaled := func(in file) *archive {
		a := parseSafetensors(in)
		a.apart([2]int{2, 2})
		return a
	}
	_ = scaled(file{"seed", craftParts(parts...)}).model(cfg)
	f.Add(craftParts(parts...))
	experts := &experts{Count: 1, Coded: true}
	coded := craftParts(part{"x_blocks", "U8", []int{1, 2, 1, 16}, counting(32)}, part{"x_scales", "U8", []int{1, 2, 1}, []byte{127, 0}}, part{"x_bias", "F32", []int{1, 2}, make([]byte, 8)})
	_ = (&loader{archive: scaled(file{"seed", coded})}).stacked("x", experts, 2, 32)
	f.Add(coded)
	fuzzReader(f, "model.safetensors", craftSafetensors(craftArrays(cfg, huggingFace), "BF16"), func(in file) error {
		return failed(func() {
			a := scaled(in)
			if _, there := a.tensors["x.weight"]; there {
				(&loader{archive: a}).stacked("x", experts, 2, 32)
				return
			}
			a.model(cfg)
		})
	})
}

// ggufSeeds are tiny models of what GGUF files differ in.
func ggufSeeds(f *testing.F) (all [][]byte) {
	cfg := tiny()
	meta, arrays := craftMeta(cfg), craftArrays(cfg, ggufWeights)
	all = append(all, craftGGUF(meta, append(arrays, array{"rope_freqs.weight", []int{1}, []float32{8}}), "F32"))
	meta["tokenizer.ggml.model"] = join(u32(ggufString), text("gpt2"))
	meta["tokenizer.ggml.pre"] = join(u32(ggufString), text("smollm"))
	meta["tokenizer.ggml.tokens"] = join(u32(ggufArray), u32(ggufString), u64(5), text("a"), text("<s>"), text("</s>"), text("b"), text("ab"))
	meta["tokenizer.ggml.token_type"] = join(u32(ggufArray), u32(ggufI32), u64(5), u32(1), u32(3), u32(3), u32(1), u32(1))
	meta["tokenizer.ggml.merges"] = join(u32(ggufArray), u32(ggufString), u64(1), text("a b"))
	all = append(all, craftGGUF(meta, arrays, "F16"))
	for _, name := range []string{"mixtral", "qwen2moe", "phi3-long"} {
		all = append(all, twins[name].gguf("F16"))
	}
	for _, data := range all { // what is fuzzed begins with what is read
		_, _, err := LoadFS(folder(map[string][]byte{"m.gguf": data}), "m.gguf")
		require.True(f, err == nil || strings.Contains(err.Error(), "rope_freqs"), "%v", err)
	}
	return all
}

func FuzzGGUF(f *testing.F) {
	cfg := tiny()
	for _, data := range ggufSeeds(f) {
		f.Add(data)
	}
	fuzzReader(f, "model.gguf", craftGGUF(craftMeta(cfg), craftArrays(cfg, ggufWeights), "F16"), func(in file) error {
		_, _, err := LoadFS(folder(map[string][]byte{in.name: in.data}), in.name)
		return err
	})
}

// FuzzSizes reads what a file says of a model that need not be one that is run.
func FuzzSizes(f *testing.F) {
	for _, data := range ggufSeeds(f) {
		f.Add(data)
	}
	for _, model := range figures(f) {
		more, _ := json.Marshal(model.Configs["4"])
		f.Add(more)
	}
	meta := craftMeta(tiny())
	meta["general.architecture"] = join(u32(ggufString), text("deepseek2"))
	f.Add(craftGGUF(meta, nil, "F32"))
	fuzzReader(f, "config.json", []byte(`{"model_type":"mamba","layer_types":["full_attention"],"hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":5,"max_position_embeddings":6}`), func(in file) error {
		var cannot []error
		var c Config
		err := failed(func() {
			if bytes.HasPrefix(in.data, []byte("GGUF")) {
				c, _ = sizesOfGGUF(folder(nil), in, &cannot)
			} else {
				c = parseConfig(in, &cannot)
			}
		})
		if err == nil { // a size can be computed of it, or not
			sinks := make([]float32, c.block(0).Heads)
			_, _ = c.Complete(kvcache.Config{}, func(int) []float32 { return sinks })
		}
		return err
	})
}

func FuzzCheckpoint(f *testing.F) {
	fuzzReader(f, "model.bin", craftCheckpoint(tiny()), func(in file) error {
		return failed(func() {
			c, a := parseCheckpoint(in)
			a.model(c)
		})
	})
}

func FuzzConfig(f *testing.F) {
	seed := craftJSON(tiny(), `,"eos_token_id":[1,2],"rope_scaling":{"type":"yarn","factor":2,"original_max_position_embeddings":4}`)
	for _, model := range figures(f) {
		for _, config := range model.Configs {
			more, _ := json.Marshal(config) // as it was read
			f.Add(more)
		}
	}
	fuzzReader(f, "config.json", seed, func(in file) error {
		return failed(func() { parseConfig(in, nil) })
	})
}
