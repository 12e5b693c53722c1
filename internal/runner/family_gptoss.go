package runner

var swiglu = map[string]any{"swiglu_limit": 7.0, "swiglu_alpha": 1.702, "hidden_act": "silu"}

// gptOSS has sinks in all layers, and experts with biases.
func gptOSS(s *settings, c *Config) {
	c.Sinks, c.Act = true, clampedSwiGLU
	c.Experts = experts{Count: s.size("num_local_experts", 1<<12), Hidden: c.Hidden, Bias: true, Router: "router", Packed: interleaved}
	c.Experts.Top = s.size("num_experts_per_tok", c.Experts.Count)
}
