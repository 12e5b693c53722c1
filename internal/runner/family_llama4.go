package runner

import (
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// rotates reports whether a layer has a rotary embedding.
func rotates(s *settings, layer int) bool {
	if flags := get(s, "no_rope_layers", []any(nil)); len(flags) > layer { // 1 of those that have one, in spite of its name
		return flags[layer] != 0.0
	}
	n := s.int("no_rope_layer_interval", 0)
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
	c.Experts = experts{Count: s.size("num_local_experts", 1<<12), Hidden: c.Hidden, Shared: c.Hidden, Route: sigmoidInputs, Packed: halves}
	c.Experts.Top = s.size("num_experts_per_tok", c.Experts.Count)
	c.Hidden, c.Names.ffn = s.size("intermediate_size_mlp", 1<<24), "feed_forward."
}

func llama4Layer(s *settings, layer int, b *Block) {
	if rotates(s, layer) {
		if get(s, "use_qk_norm", true) {
			b.QKNorm = plainQK
		}
	} else if b.NoRoPE = true; get(s, "attn_temperature_tuning", true) {
		b.Warm = temperature{Floor: s.int("floor_scale"), Scale: get[float64](s, "attn_scale")}
	}
	moe, step := get(s, "moe_layers", []any(nil)), s.int("interleave_moe_layer_step")
	if moe != nil && !slices.Contains(moe, any(float64(layer))) || moe == nil && (step < 1 || (layer+1)%step != 0) {
		b.Experts = experts{}
	}
}
