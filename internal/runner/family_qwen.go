package runner

import "slices"

// windows is a window in every layer.
func windows(*settings, int) string { return "sliding_attention" }

// upperWindows is a window in the layers from max_window_layers on, if use_sliding_window says so.
func upperWindows(s *settings, layer int) string {
	if get(s, "use_sliding_window", false) && layer >= s.int("max_window_layers") {
		return "sliding_attention"
	}
	return "full_attention"
}

// qwen2 has biases in three of four projections.
func qwen2(s *settings, c *Config) {
	if c.QKVBias, c.OBias = true, false; !get(s, "use_sliding_window", false) {
		s.values["sliding_window"] = nil
	}
}

func qwen3(s *settings, c *Config) {
	if c.QKNorm = weightedQK; !get(s, "use_sliding_window", false) {
		s.values["sliding_window"] = nil
	}
}

func qwen3Next(s *settings, c *Config) {
	c.UnitNorm, c.QKNorm, c.Gated = true, weightedQK, true
	c.Delta = delta{KeyHeads: s.int("linear_num_key_heads"), ValueHeads: s.int("linear_num_value_heads"),
		KeyDim: s.int("linear_key_head_dim"), ValueDim: s.int("linear_value_head_dim"), Conv: s.int("linear_conv_kernel_dim")}
	c.Experts = experts{Count: s.int("num_experts"), Top: s.int("num_experts_per_tok"), Hidden: s.int("moe_intermediate_size"),
		Shared: s.int("shared_expert_intermediate_size"), SharedGate: true, Route: softmaxAll}
	if get(s, "norm_topk_prob", false) {
		c.Experts.Route = softmaxChosen
	}
	c.Names.router = "gate"
}

// qwen3NextLayer has experts in each decoder_sparse_step-th layer that is not in mlp_only_layers.
func qwen3NextLayer(s *settings, layer int, b *Block) {
	step := max(s.int("decoder_sparse_step", 1), 1)
	if slices.Contains(get(s, "mlp_only_layers", []any(nil)), any(float64(layer))) || b.Experts.Count == 0 || (layer+1)%step != 0 {
		b.Experts = experts{}
	}
}
