package runner

import (
	"fmt"
	"math"
	"slices"

	"github.com/ferrumkv/ferrumkv/backend"
)

// lower are the layers below max_window_layers.
func lower(s *settings, layer int) bool { return layer < get(s, "max_window_layers", 0) }

// qwen2 has biases in three of four projections.
func qwen2(_ *settings, c *Config) { c.QKVBias, c.OBias = true, false }

func qwen3(_ *settings, c *Config) { c.QKNorm = true }

func qwen3Next(s *settings, c *Config) {
	c.UnitNorm, c.QKNorm, c.Gated = true, true, true
	c.Delta = delta{KeyHeads: s.size("linear_num_key_heads", 1<<10), ValueHeads: s.size("linear_num_value_heads", 1<<10),
		KeyDim: s.size("linear_key_head_dim", 1<<10), ValueDim: s.size("linear_value_head_dim", 1<<10),
		Conv: s.size("linear_conv_kernel_dim", 1<<6)}
	qwenExperts(s, c)
}

func qwen2MoE(s *settings, c *Config) {
	qwen2(s, c)
	qwenExperts(s, c)
}

func qwen3MoE(s *settings, c *Config) {
	qwen3(s, c)
	qwenExperts(s, c)
}

// qwenExperts has a shared expert where that has a size.
func qwenExperts(s *settings, c *Config) {
	count := "num_experts"
	if _, there := s.lookup("num_local_experts"); there != nil { // as transformers 5 may write it
		count = "num_local_experts"
	}
	if n := s.size(count, 1<<12, 0); n > 0 {
		shared := s.size("shared_expert_intermediate_size", 1<<20, 0)
		c.Experts = experts{Count: n, Top: s.size("num_experts_per_tok", n), Hidden: s.size("moe_intermediate_size", 1<<20),
			Shared: shared, SharedGate: shared > 0, SharedName: "shared_expert", Router: "gate", Normed: get(s, "norm_topk_prob", false)}
	}
}

// qwenSparse has experts in each decoder_sparse_step-th layer that is not in mlp_only_layers.
func qwenSparse(s *settings, layer int, b *Block) {
	step := max(get(s, "decoder_sparse_step", 1), 1)
	if slices.Contains(get(s, "mlp_only_layers", []any(nil)), any(float64(layer))) || (layer+1)%step != 0 {
		b.Experts = experts{}
	}
}

func mixtral(s *settings, c *Config) {
	c.FFN = "block_sparse_moe."
	c.Experts = experts{Count: s.size("num_local_experts", 1<<12), Hidden: c.Hidden, Normed: true, Router: "gate", Parts: matrixNames{"w1", "w3", "w2"}}
	c.Experts.Top = s.size("num_experts_per_tok", c.Experts.Count)
}

// gemma scales embeddings, norms around its sublayers, and caps logits.
func gemma(s *settings, c *Config) {
	c.UnitNorm, c.PostNorms, c.EmbedScale = true, true, float32(math.Sqrt(float64(c.Dim)))
	c.Scale = float32(1 / math.Sqrt(get[float64](s, "query_pre_attn_scalar")))
	c.SoftCap, c.LogitCap = float32(get(s, "attn_logit_softcapping", 0.0)), float32(get(s, "final_logit_softcapping", 0.0))
}

func gemma3(s *settings, c *Config) {
	gemma(s, c)
	c.QKNorm = true
}

var swiglu = map[string]any{"swiglu_limit": 7.0, "swiglu_alpha": 1.702, "hidden_act": "silu"}

// gptOSS has sinks in all layers, and experts with biases.
func gptOSS(s *settings, c *Config) {
	c.Sinks, c.Act = true, clampedSwiGLU
	c.Experts = experts{Count: s.size("num_local_experts", 1<<12), Hidden: c.Hidden, Normed: true, Bias: true, Router: "router",
		Packed: true, ByTurns: true}
	c.Experts.Top = s.size("num_experts_per_tok", c.Experts.Count)
}

// unrotated reports whether a layer has no rotary embedding.
func unrotated(s *settings, layer int) bool {
	if flags := get(s, "no_rope_layers", []any(nil)); len(flags) > 0 { // 1 of those that have one, in spite of its name
		s.need(len(flags) > layer, "no_rope_layers", "has %d flags, layer %d has none", len(flags), layer)
		return !as[bool](s, fmt.Sprintf("no_rope_layers[%d]", layer), flags[layer])
	}
	return each("no_rope_layer_interval", 0)(s, layer)
}

func llama4(s *settings, c *Config) {
	c.RoPE.Pairing = backend.Interleaved
	c.Experts = experts{Count: s.size("num_local_experts", 1<<12), Hidden: c.Hidden, Shared: c.Hidden, Sigmoid: true, OfInputs: true,
		SharedName: "shared_expert", Router: "router", Packed: true}
	c.Experts.Top = s.size("num_experts_per_tok", c.Experts.Count)
	c.Hidden, c.FFN = s.size("intermediate_size_mlp", 1<<24), "feed_forward."
}

func llama4Layer(s *settings, layer int, b *Block) {
	if !unrotated(s, layer) {
		b.QKNorm, b.PlainQK = get(s, "use_qk_norm", true), true
	} else if b.NoRoPE = true; get(s, "attn_temperature_tuning", false) { // 4 in files of transformers 4
		b.WarmFloor, b.WarmScale = s.size("floor_scale", maxContext), get[float64](s, "attn_scale")
	}
	moe, step := get(s, "moe_layers", []any(nil)), get[int](s, "interleave_moe_layer_step")
	if moe != nil && !slices.Contains(moe, any(float64(layer))) || moe == nil && (step < 1 || (layer+1)%step != 0) {
		b.Experts = experts{}
	}
}

func deepSeek(s *settings, c *Config) {
	latents(s, c)
	if n := s.size("n_routed_experts", 1<<12, 0); n > 0 && get(s, "first_k_dense_replace", 0) < c.Layers {
		c.Experts = deepSeekExperts(s, n)
	}
}

// latents are what layers keep in place of keys and values.
func latents(s *settings, c *Config) {
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
}

// deepSeekExperts has n experts, of which a token has those of its best groups.
func deepSeekExperts(s *settings, n int) experts {
	method := get(s, "topk_method", "noaux_tc")
	methods := map[string]int{"greedy": 0, "group_limited_greedy": 1, "noaux_tc": 2}
	best, known := methods[method]
	s.support(known, "it runs "+listed(methods), "topk_method %s", method)
	e := experts{Count: n, Top: s.size("num_experts_per_tok", n), Hidden: s.size("moe_intermediate_size", 1<<20), GroupBest: best, Correction: method == "noaux_tc",
		Normed: get(s, "norm_topk_prob", false), Scale: float32(get(s, "routed_scaling_factor", 1.0)), SharedName: "shared_experts", Router: "gate"}
	e.Shared = s.size("n_shared_experts", 1<<10, 0) * e.Hidden
	scores := get(s, "scoring_func", map[bool]string{true: "sigmoid", false: "softmax"}[e.Correction])
	e.Sigmoid = scores == "sigmoid"
	s.support(e.Sigmoid || scores == "softmax", "it runs sigmoid and softmax", "scoring_func %s", scores)
	field, _ := s.lookup("routed_scaling_factor")
	s.need(e.Scale > 0 && !math.IsInf(float64(e.Scale), 0), field, "have %v, need a positive number", e.Scale)
	if best > 0 {
		e.Groups = s.size("n_group", n, 1)
		e.TopGroups = s.size("topk_group", e.Groups, e.Groups)
		field, _ = s.lookup("n_group")
		s.need(n%e.Groups == 0 && e.Top <= n/e.Groups*e.TopGroups, field,
			"have %d groups of %d experts, of which a token has %d in %d groups", e.Groups, n, e.Top, e.TopGroups)
	}
	return e
}

// deepSeekLayer has no experts in the first layers, and then in each moe_layer_freq-th one.
func deepSeekLayer(s *settings, layer int, b *Block) {
	if layer < get(s, "first_k_dense_replace", 0) || layer%s.size("moe_layer_freq", 1<<9, 1) != 0 {
		b.Experts = experts{}
	}
}

// phi3 has factors of each frequency (longrope) where it was made for long contexts: one set for short texts, and one for longer ones.
func phi3(s *settings, c *Config) {
	prefix, _ := s.ropeOf("full_attention")
	kind := "rope_type"
	if get[any](s, prefix+kind, nil) == nil {
		kind = "type"
	}
	if name, _ := s.values[prefix+kind].(string); name != "longrope" && name != "su" {
		return
	}
	short := get[[]any](s, prefix+"short_factor")
	plain := !slices.ContainsFunc(short, func(f any) bool { return f != any(1.0) })
	original := get(s, prefix+"original_max_position_embeddings", get(s, "original_max_position_embeddings", 0))
	s.values[prefix+kind] = "none"
	attention := math.Sqrt(1 + math.Log(max(float64(c.Context)/float64(original), 1))/math.Log(float64(original)))
	s.longRoPE(c, plain, original, get(s, prefix+"attention_factor", attention))
}

// longRoPE is longrope of texts up to the original context, whose frequencies are plain ones where all short factors are 1.
func (s *settings) longRoPE(c *Config, plain bool, original int, attention float64) {
	if !plain || original < 2 {
		s.refuse("longrope with a factor for each frequency", "of this family it runs models without longrope, such as Phi-3-mini-4k-instruct and phi-4, and those whose short factors are all 1, such as Phi-4-mini-instruct, up to their original context")
		return
	}
	// A ramp between frequencies that are the same, and a factor on queries and keys.
	c.Context = min(c.Context, original)
	c.RoPE.Scaling, c.RoPE.Factor, c.RoPE.OriginalContext, c.RoPE.AttentionFactor = backend.YaRNScaling, 1, original, attention
}
