package runner

import (
	"math"

	"github.com/ferrumkv/ferrumkv/backend"
)

func deepSeek(s *settings, c *Config) {
	c.Latent = latent{Query: s.int("q_lora_rank", 0), KV: s.int("kv_lora_rank"), Rotated: s.int("qk_rope_head_dim")}
	c.KVHeads, c.HeadDim, c.ValueDim = c.Heads, s.int("qk_nope_head_dim")+c.Latent.Rotated, s.int("v_head_dim")
	if c.RoPE.Dims = c.Latent.Rotated; get(s, "rope_interleave", true) {
		c.RoPE.Pairing = backend.Interleaved
	}
}

// deepSeekLayer has a larger scale of attention where YaRN says mscale_all_dim.
func deepSeekLayer(s *settings, layer int, b *Block) {
	if first := s.int("first_k_dense_replace", 0); s.values["n_routed_experts"] != nil && layer >= first {
		s.keep(s.unsupported("first_k_dense_replace %d, which leaves layer %d to n_routed_experts,", first, layer))
	}
	prefix, _ := s.ropeOf("full_attention")
	if all := get(s, prefix+"mscale_all_dim", 0.0); all != 0 {
		m := yarnFactor(get(s, prefix+"factor", 1.0), all)
		b.Scale = float32(m * m / math.Sqrt(float64(b.HeadDim)))
	}
}
