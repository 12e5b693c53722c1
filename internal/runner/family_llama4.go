package runner

import (
	"fmt"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// rotates reports whether a layer has a rotary embedding.
func rotates(s *settings, layer int) bool {
	if flags := get(s, "no_rope_layers", []any(nil)); len(flags) > layer { // 1 of those that have one, in spite of its name
		return as[bool](s, fmt.Sprintf("no_rope_layers[%d]", layer), flags[layer])
	} else if len(flags) > 0 {
		s.fail("no_rope_layers", "has %d flags, layer %d has none", len(flags), layer)
	}
	n := get(s, "no_rope_layer_interval", 0)
	return n < 1 || (layer+1)%n != 0
}

// chunksBetween is chunks in the layers with a rotary embedding.
func chunksBetween(s *settings, layer int) string {
	if rotates(s, layer) {
		return "chunked_attention"
	}
	return "full_attention"
}

func llama4(s *settings, c *Config) {
	c.RoPE.Pairing = backend.Interleaved
	c.Experts = experts{Count: s.size("num_local_experts", 1<<12), Hidden: c.Hidden, Shared: c.Hidden, Route: sigmoidInputs, Router: "router", Packed: halves}
	c.Experts.Top = s.size("num_experts_per_tok", c.Experts.Count)
	c.Hidden, c.FFN = s.size("intermediate_size_mlp", 1<<24), "feed_forward."
}

func llama4Layer(s *settings, layer int, b *Block) {
	if rotates(s, layer) {
		if get(s, "use_qk_norm", true) {
			b.QKNorm = plainQK
		}
	} else if b.NoRoPE = true; get(s, "attn_temperature_tuning", false) { // 4 in files of transformers 4
		b.Warm = temperature{Floor: s.size("floor_scale", maxContext), Scale: get[float64](s, "attn_scale")}
	}
	moe, step := get(s, "moe_layers", []any(nil)), get[int](s, "interleave_moe_layer_step")
	if moe != nil && !slices.Contains(moe, any(float64(layer))) || moe == nil && (step < 1 || (layer+1)%step != 0) {
		b.Experts = experts{}
	}
}
