package runner

import (
	"fmt"
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

// parseCheckpoint reads a llama2.c checkpoint of version 0: seven i32 and then, in a fixed order, all weights in f32, those of
// a kind for all layers back to back. The size of the file follows from the header and must agree.
func parseCheckpoint(f file) (Config, *archive) {
	a := newArchive(f)
	if a.u32("header") == 0x616b3432 { // later versions begin with the letters ak42
		f.support(false, "version %d of the llama2.c checkpoint", a.u32("version"))
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
	s.need(c.HeadDim*c.Heads == c.Dim, "header num_attention_heads", "have %d, which does not divide the hidden size %d", c.Heads, c.Dim)
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
	kv := c.KVHeads * c.HeadDim
	add("model.embed_tokens.weight", c.Vocab, c.Dim)
	each("input_layernorm", c.Dim)
	each("self_attn.q_proj", c.Dim, c.Dim)
	each("self_attn.k_proj", kv, c.Dim)
	each("self_attn.v_proj", kv, c.Dim)
	each("self_attn.o_proj", c.Dim, c.Dim)
	each("post_attention_layernorm", c.Dim)
	each("mlp.gate_proj", c.Hidden, c.Dim)
	each("mlp.down_proj", c.Dim, c.Hidden)
	each("mlp.up_proj", c.Hidden, c.Dim)
	add("model.norm.weight", c.Dim)
	add("rotations", c.Context, c.HeadDim) // tables that nobody needs
	if !c.Tied {
		add("lm_head.weight", c.Vocab, c.Dim)
	}
	a.need(a.left() == 0, "size", "%d bytes follow the weights that the header describes", a.left())
	return c, a
}
