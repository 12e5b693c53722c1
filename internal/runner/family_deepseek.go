package runner

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

func deepSeek(s *settings, c *Config) {
	c.Latent = latent{Query: s.size("q_lora_rank", 1<<16, 0), KV: s.size("kv_lora_rank", 1<<16), Plain: s.size("qk_nope_head_dim", 1<<16),
		Rotated: s.size("qk_rope_head_dim", 1<<16), Value: s.size("v_head_dim", 1<<16)}
	l := &c.Latent
	c.KVHeads, c.HeadDim, c.ValueDim, c.RoPE.Dims = 1, l.KV+l.Rotated, l.KV, l.Rotated
	c.Scale = float32(1 / math.Sqrt(float64(l.Plain+l.Rotated)))
	if get(s, "rope_interleave", true) {
		c.RoPE.Pairing = backend.Interleaved
	}
	prefix, _ := s.ropeOf("full_attention")
	if all := get(s, prefix+"mscale_all_dim", 0.0); all != 0 { // YaRN, with a larger scale of attention
		m := yarnFactor(get(s, prefix+"factor", 1.0), all)
		c.Scale *= float32(m * m)
	}
	if first, n := get(s, "first_k_dense_replace", 0), get(s, "n_routed_experts", 0); n > 0 && first < c.Layers {
		s.refuse("n_routed_experts %d, which layer %d has by first_k_dense_replace %d,", n, first, first)
	}
}
