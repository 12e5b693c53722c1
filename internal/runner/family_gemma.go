package runner

import "math"

// gemma scales embeddings, norms around its sublayers, and caps logits.
func gemma(s *settings, c *Config) {
	c.UnitNorm, c.PostNorms, c.EmbedScale = true, true, float32(math.Sqrt(float64(c.Dim)))
	c.Scale = float32(1 / math.Sqrt(get[float64](s, "query_pre_attn_scalar")))
	c.SoftCap, c.LogitCap = float32(get(s, "attn_logit_softcapping", 0.0)), float32(get(s, "final_logit_softcapping", 0.0))
}

func gemma3(s *settings, c *Config) {
	gemma(s, c)
	c.QKNorm = weightedQK
}
