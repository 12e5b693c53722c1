package runner

import (
	"encoding/json"
	"testing"
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

func FuzzGGUF(f *testing.F) {
	cfg := tiny()
	fuzzReader(f, "model.gguf", craftGGUF(craftMeta(cfg), craftArrays(cfg, ggufWeights), "F16"), func(in file) error {
		_, _, err := LoadFS(folder(map[string][]byte{in.name: in.data}), in.name)
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
