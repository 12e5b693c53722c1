package runner

import "math"

// gemma scales embeddings, norms around its sublayers, and caps logits.
func gemma(s *settings, c *Config) {
	c.UnitNorm, c.EmbedScale = true, float32(math.Sqrt(float64(c.Dim)))
	c.Scale = float32(1 / math.Sqrt(get[float64](s, "query_pre_attn_scalar")))
	c.SoftCap, c.LogitCap = float32(get(s, "attn_logit_softcapping", 0.0)), float32(get(s, "final_logit_softcapping", 0.0))
	c.Names.ffnNorm, c.Names.postAttn, c.Names.postFFN = "pre_feedforward_layernorm", "post_attention_layernorm", "post_feedforward_layernorm"
}

func gemma3(s *settings, c *Config) {
	gemma(s, c)
	c.QKNorm = weightedQK
}
