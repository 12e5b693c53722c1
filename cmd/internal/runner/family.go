package runner

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
)

// family is what an architecture differs in from the others, besides the defaults of its configuration class.
type family struct {
	kind  string                                 // of layers where the file has no layer_types; "": full_attention
	full  func(s *settings, layer int) bool      // the layers that are full_attention all the same; nil: none
	shape func(s *settings, c *Config)           // adds what all layers have
	layer func(s *settings, layer int, b *Block) // adds what one of them has
	only  map[string]any                         // what the runner has no other value for
}

// families are the architectures by model_type.
var families = map[string]family{
	"llama":       {},
	"mistral":     {kind: "sliding_attention"},
	"qwen2":       {kind: "sliding_attention", full: lower, shape: qwen2},
	"qwen3":       {kind: "sliding_attention", full: lower, shape: qwen3},
	"qwen2_moe":   {shape: qwen2MoE, layer: qwenSparse, only: map[string]any{"use_sliding_window": false, "qkv_bias": true}},
	"qwen3_moe":   {shape: qwen3MoE, layer: qwenSparse, only: map[string]any{"use_sliding_window": false}},
	"phi3":        {kind: "sliding_attention", shape: phi3},
	"qwen3_next":  {kind: "linear_attention", full: each("full_attention_interval", 4), shape: qwen3Next, layer: qwenSparse},
	"gemma2":      {kind: "sliding_attention", full: each("sliding_window_pattern", 2), shape: gemma},
	"gemma3_text": {kind: "sliding_attention", full: each("sliding_window_pattern", 2), shape: gemma3},
	"gpt_oss":     {kind: "sliding_attention", full: each("sliding_window_pattern", 2), shape: gptOSS, only: swiglu},
	"llama4_text": {kind: "chunked_attention", full: unrotated, shape: llama4, layer: llama4Layer},
	"mixtral":     {kind: "sliding_attention", shape: mixtral},
	"deepseek_v2": {shape: deepSeek, layer: deepSeekLayer, only: map[string]any{"norm_topk_prob": false}}, // of which implementations differ in what they make
	"deepseek_v3": {shape: deepSeek, layer: deepSeekLayer},
	"kimi_k2":     {shape: deepSeek, layer: deepSeekLayer},
}

// each is each n-th layer, where n is a setting.
func each(setting string, n int) func(*settings, int) bool {
	return func(s *settings, layer int) bool {
		n := get(s, setting, n)
		return n > 0 && (layer+1)%n == 0
	}
}

// everywhere is what the runner has no other value for in any family.
var everywhere = map[string]any{"mlp_bias": false, "use_bidirectional_attention": false}

// classes are the defaults of the configuration classes of Hugging Face transformers, by model_type: the values of
// what a file does not have, though not of what it has as null.
var classes = func() (all map[string]map[string]any) {
	check(json.Unmarshal(classesJSON, &all)) // which is part of the program
	return all
}()

//go:embed classes.json
var classesJSON []byte

// config is the shape of the model.
func (s *settings) config() Config {
	name := get[string](s, "model_type")
	name = cmp.Or(larger[name], name)
	f, known := families[name]
	var unknown []int // what a setting may be that is not known
	if !known {
		f, unknown = s.foreign(name), []int{0}
	}
	if s.names == nil { // a GGUF file has all that it needs
		s.assume(classes[name])
	}
	s.flatten("rope_scaling")
	s.flatten("rope_parameters")
	for kind := range layerTypes {
		s.flatten("rope_parameters." + kind)
	}
	s.only(everywhere)
	s.only(f.only)
	c := Config{
		Family: name, Dim: s.size("hidden_size", 1<<20), Layers: s.size("num_hidden_layers", 1<<9), Vocab: s.size("vocab_size", 1<<24),
		Context: s.size("max_position_embeddings", maxContext, unknown...), Eps: float32(get[float64](s, "rms_norm_eps")), FFN: "mlp.",
		Tied: get(s, "tie_word_embeddings", false), BOS: append(s.tokens("bos_token_id"), NoToken)[0], EOS: s.tokens("eos_token_id"),
	}
	b := &c.Block
	b.Heads, b.Hidden = s.size("num_attention_heads", 1<<16), s.size("intermediate_size", 1<<24)
	b.KVHeads = s.size("num_key_value_heads", 1<<16, b.Heads)
	b.HeadDim = s.size("head_dim", 1<<16, max(c.Dim/max(b.Heads, 1), 1))
	b.QKVBias = get(s, "attention_bias", false)
	b.OBias = b.QKVBias
	act := "hidden_activation" // of Gemma, whose files have hidden_act too, which says nothing
	if s.values[act] == nil {
		act = "hidden_act"
	}
	b.Act = get(s, act, "silu")
	s.support(activations[b.Act] != nil && b.Act != clampedSwiGLU, "it runs "+listed(activations, clampedSwiGLU), "%s %s", act, b.Act)
	if f.shape != nil {
		f.shape(s, &c)
	}
	s.quantized(&c)
	c.lay(s, f)
	return c
}

// lay describes each layer.
func (c *Config) lay(s *settings, f family) {
	kinds := get(s, "layer_types", []any(nil))
	field, _ := s.lookup("layer_types")
	s.need(kinds == nil || len(kinds) == c.Layers, field, "has %d types, need one for each of %d layers", len(kinds), c.Layers)
	c.Blocks = make([]Block, 0, c.Layers)
	none := map[string]int{}
	for l := range c.Layers {
		kind := "full_attention"
		if kinds != nil {
			kind = fmt.Sprint(kinds[l])
		} else if f.kind != "" && (f.full == nil || !f.full(s, l)) {
			kind = f.kind
		}
		b := c.Block
		if s.keepsNone(&b, kind) {
			none[kind]++
			c.Blocks = append(c.Blocks, b)
			continue
		}
		s.see(&b, kind)
		if f.layer != nil {
			f.layer(s, l, &b)
		}
		if !b.NoRoPE {
			s.rope(&b, kind, c.Context)
		}
		c.Blocks = append(c.Blocks, b)
	}
	s.tellNone(none, c.Layers)
	if !slices.ContainsFunc(c.Blocks, func(b Block) bool { return b != c.Blocks[0] }) {
		c.Block, c.Blocks = c.Blocks[0], nil
	}
}

// layerTypes are what layers see, and the setting that says how much.
var layerTypes = map[string]struct {
	kind group.Kind
	span string
}{
	"full_attention": {}, "attention": {}, "linear_attention": {kind: group.State},
	"sliding_attention": {group.Window, "sliding_window"}, "chunked_attention": {group.Chunked, "attention_chunk_size"},
}

// see says which tokens a layer of a type sees: everything where nothing says how much.
func (s *settings) see(b *Block, kind string) {
	t, known := layerTypes[kind]
	_, asks := s.values["use_sliding_window"] // as Qwen's classes do
	if t.span != "" && get(s, "use_sliding_window", !asks) {
		b.Span = s.size(t.span, maxContext, 0)
	}
	if !known {
		s.need(s.cannot == nil || !s.stateful(), s.section+" layer_types", "has type %q, of which it is not known what it keeps: no size is given", kind)
		s.refuse("layer_types "+kind, "it runs "+listed(layerTypes))
	}
	s.support(t.kind != group.State || b.Delta != (delta{}), "it runs such layers in qwen3_next", "layer_types %s in this family", kind)
	if t.kind == group.State || b.Span != 0 {
		b.Kind, b.NoRoPE = t.kind, t.kind == group.State
	}
}
