package runner

import "slices"

// windows is a window in every layer.
func windows(*settings, int) string { return "sliding_attention" }

// upperWindows is a window in the layers from max_window_layers on.
func upperWindows(s *settings, layer int) string {
	if layer >= get(s, "max_window_layers", 0) {
		return "sliding_attention"
	}
	return "full_attention"
}

// qwen2 has biases in three of four projections.
func qwen2(_ *settings, c *Config) { c.QKVBias, c.OBias = true, false }

func qwen3(_ *settings, c *Config) { c.QKNorm = weightedQK }

func qwen3Next(s *settings, c *Config) {
	c.UnitNorm, c.QKNorm, c.Gated = true, weightedQK, true
	c.Delta = delta{KeyHeads: s.size("linear_num_key_heads", 1<<10), ValueHeads: s.size("linear_num_value_heads", 1<<10),
		KeyDim: s.size("linear_key_head_dim", 1<<10), ValueDim: s.size("linear_value_head_dim", 1<<10),
		Conv: s.size("linear_conv_kernel_dim", 1<<6)}
	if n := s.size("num_experts", 1<<12, 0); n > 0 {
		c.Experts = experts{Count: n, Top: s.size("num_experts_per_tok", n), Hidden: s.size("moe_intermediate_size", 1<<20),
			Shared: s.size("shared_expert_intermediate_size", 1<<20, 0), SharedGate: true, Router: "gate", Route: softmaxAll}
	}
	if get(s, "norm_topk_prob", false) {
		c.Experts.Route = softmaxChosen
	}
}

// qwen3NextLayer has experts in each decoder_sparse_step-th layer that is not in mlp_only_layers.
func qwen3NextLayer(s *settings, layer int, b *Block) {
	step := max(get(s, "decoder_sparse_step", 1), 1)
	if slices.Contains(get(s, "mlp_only_layers", []any(nil)), any(float64(layer))) || (layer+1)%step != 0 {
		b.Experts = experts{}
	}
}
