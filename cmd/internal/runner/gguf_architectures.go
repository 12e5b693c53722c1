package runner

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ggufArchitecture is what an architecture of GGUF differs in from the family that it is of.
type ggufArchitecture struct {
	family string            // what Hugging Face calls it; "": the same
	names  *strings.Replacer // of weights; nil: it is not run
	// Query and key rows are in the order that pairs neighbours, also where the original paired halves.
	neighbours bool
	adjust     func(s *settings, a *archive, c *Config)
}

var ggufArchitectures = map[string]ggufArchitecture{
	"llama":     {names: ggufExpertWeights, neighbours: true, adjust: ggufMixtral},
	"qwen2":     {names: ggufWeights},
	"qwen3":     {names: ggufWeights},
	"gemma2":    {names: ggufGemma, adjust: ggufNorms(46)},
	"gemma3":    {family: "gemma3_text", names: ggufGemma, adjust: ggufNorms(62)},
	"gpt-oss":   {family: "gpt_oss", names: ggufGPTOSS, adjust: ggufExperts},
	"qwen2moe":  {family: "qwen2_moe", names: ggufExpertWeights, adjust: ggufExperts},
	"qwen3moe":  {family: "qwen3_moe", names: ggufExpertWeights, adjust: ggufExperts},
	"phi3":      {names: ggufFused, adjust: ggufLongRoPE},
	"llama4":    {family: "llama4_text", neighbours: true},
	"deepseek2": {family: "deepseek_v2", neighbours: true},
}

// ggufRun is the architectures that are run.
func ggufRun() (names []string) {
	for name, a := range ggufArchitectures {
		if a.names != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ggufWeights is what GGUF calls the weights of Llama, and ggufGemma those of Gemma, which has more norms.
var (
	ggufWeights = strings.NewReplacer(append(ggufCommon, "post_attention_layernorm", "ffn_norm")...)
	ggufGemma   = strings.NewReplacer(append(ggufCommon, "post_attention_layernorm", "post_attention_norm",
		"pre_feedforward_layernorm", "ffn_norm", "post_feedforward_layernorm", "post_ffw_norm")...)
	ggufGPTOSS        = strings.NewReplacer(append(ggufCommon, "post_attention_layernorm", "post_attention_norm", "self_attn.sinks", "attn_sinks.weight", "mlp.router", "ffn_gate_inp")...)
	ggufFused         = strings.NewReplacer(append(ggufCommon, "post_attention_layernorm", "ffn_norm", "self_attn.qkv_proj", "attn_qkv", "mlp.gate_up_proj", "ffn_up")...)
	ggufExpertWeights = strings.NewReplacer(append(ggufCommon, "post_attention_layernorm", "ffn_norm", "mlp.shared_expert.gate_proj", "ffn_gate_shexp", "mlp.shared_expert.up_proj", "ffn_up_shexp",
		"mlp.shared_expert.down_proj", "ffn_down_shexp", "mlp.shared_expert_gate", "ffn_gate_inp_shexp", "mlp.gate", "ffn_gate_inp")...)
	ggufCommon = []string{
		"model.embed_tokens", "token_embd", "model.norm", "output_norm", "lm_head", "output", "model.layers", "blk",
		"input_layernorm", "attn_norm", "self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v", "self_attn.o_proj", "attn_output",
		"self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm", "mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down",
		"mlp.experts.gate_proj", "ffn_gate_exps", "mlp.experts.up_proj", "ffn_up_exps", "mlp.experts.down_proj", "ffn_down_exps",
	}
)

// ggufNorms is for Gemma, whose norms have their 1 in GGUF. The scale of attention is not there: it is that of the head dim, but in the largest
// model, which is known by its layers, that of the hidden size for each head.
func ggufNorms(largest int) func(*settings, *archive, *Config) {
	return func(_ *settings, _ *archive, c *Config) {
		c.UnitNorm = false
		for l := range max(len(c.Blocks), 1) {
			if b := c.block(l); c.Layers == largest {
				b.Scale = float32(1 / math.Sqrt(float64(c.Dim/b.Heads)))
			}
		}
	}
}

// ggufExperts is for models of experts, each of which has a size of its own.
func ggufExperts(s *settings, a *archive, c *Config) {
	hidden := s.size("llama.expert_feed_forward_length", 1<<24, c.Hidden)
	for l := range c.Layers {
		if e := &c.block(l).Experts; e.Count > 0 {
			e.Packed, e.Stacked, e.Hidden, e.Normed = false, true, hidden, s.arch != "qwen2moe" // no setting says so
			a.row(fmt.Sprintf("blk.%d.ffn_gate_inp_shexp.weight", l))
		}
	}
}

// row makes a vector the only row of a matrix, which is what it is elsewhere.
func (a *archive) row(name string) {
	if t, there := a.tensors[name]; there && len(t.shape) == 1 {
		t.shape = []int{1, t.shape[0]}
		a.tensors[name] = t
	}
}

// ggufMixtral is for models of Llama's architecture with experts in all layers, which are Mixtral's.
func ggufMixtral(s *settings, a *archive, c *Config) {
	n := s.size("num_local_experts", 1<<12, 0)
	if n == 0 {
		return
	}
	if _, old := a.tensors["blk.0.ffn_gate.0.weight"]; old {
		s.refuse("a tensor for each expert in a GGUF file", "it reads files with blk.0.ffn_gate_exps.weight, as llama.cpp has written them since April 2024: there are newer files of the same model")
	}
	for l := range max(len(c.Blocks), 1) {
		c.block(l).Experts = experts{Count: n, Top: s.size("num_experts_per_tok", n), Hidden: c.Hidden, Router: "gate"}
	}
	ggufExperts(s, a, c)
}

// ggufLongRoPE is for Phi-3, of which a file has factors of frequencies where the model was made for long contexts.
func ggufLongRoPE(s *settings, a *archive, c *Config) {
	const short, long = "rope_factors_short.weight", "rope_factors_long.weight"
	field := s.own("llama.rope.scaling.attn_factor")
	attention := get(s, field, 1.0)
	delete(s.values, field)
	if _, scaled := a.tensors[long]; !scaled {
		return
	}
	a.dense(long, c.RoPE.Dims/2)
	plain := !slices.ContainsFunc(a.dense(short, c.RoPE.Dims/2).data, func(f float32) bool { return f != 1 })
	s.longRoPE(c, plain, s.size("rope_scaling.original_max_position_embeddings", maxContext), attention)
}

// familiar gives settings the names of a family, and the values that are not in GGUF.
func (s *settings) familiar(family string) {
	field := s.own("model_type")
	s.values[field] = cmp.Or(family, s.arch)
	if heads, ok := s.values[s.own("num_attention_heads")].(float64); ok && heads > 0 {
		s.assume(map[string]any{"query_pre_attn_scalar": get(s, "head_dim", get(s, "hidden_size", 0.0)/heads)})
	}
	known := []string{"sliding_window_pattern", "rope_local_base_freq", "hidden_activation"} // by readers of GGUF
	if slices.Contains([]string{"gemma2", "gpt-oss", "llama4"}, s.arch) {                    // of files that were made early
		known = append(known, "sliding_window", "attn_logit_softcapping", "final_logit_softcapping", "interleave_moe_layer_step", "attention_chunk_size", "no_rope_layer_interval")
	}
	for _, key := range known {
		if value, ok := classes[s.values[field].(string)][key]; ok {
			s.assume(map[string]any{key: value})
		}
	}
	if key := s.own("rope_scaling.rope_type"); s.arch == "phi3" && s.values[key] == "longrope" { // see ggufLongRoPE
		delete(s.values, key)
	}
	if s.arch == "llama4" {
		s.assume(map[string]any{"intermediate_size_mlp": s.values[s.own("intermediate_size")]})
	}
	if s.values[s.arch+".attention.kv_lora_rank"] != nil { // whose key and value lengths are of latents, and those of heads have names of their own
		number := func(key string) float64 { return get(s, s.arch+"."+key, 0.0) }
		rotated := number("rope.dimension_count")
		for key, value := range map[string]float64{"qk_rope_head_dim": rotated, "kv_lora_rank": number("attention.kv_lora_rank"), "q_lora_rank": number("attention.q_lora_rank"),
			"qk_nope_head_dim": cmp.Or(number("attention.key_length_mla"), number("attention.key_length")) - rotated, "v_head_dim": cmp.Or(number("attention.value_length_mla"), number("attention.value_length"))} {
			s.values[key] = value
		}
	}
}
