package runner

var swiglu = map[string]any{"swiglu_limit": 7.0, "swiglu_alpha": 1.702, "hidden_act": "silu"}

// gptOSS has sinks in all layers, and experts with biases.
func gptOSS(s *settings, c *Config) {
	c.Sinks, c.Act = true, "swiglu_oai"
	c.Experts = experts{Count: s.size("num_local_experts", 1<<12), Hidden: c.Hidden, Bias: true, Packed: interleaved}
	c.Experts.Top = s.size("num_experts_per_tok", c.Experts.Count)
	if s.values["rope_scaling"] == nil && s.values["rope_parameters"] == nil {
		s.values["rope_scaling"] = map[string]any{"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
			"truncate": false, "original_max_position_embeddings": 4096.0}
		s.flatten("rope_scaling")
	}
}
