"""Tiny models of each architecture: what a file says, in the spellings of transformers 4 and 5, and what that means.

Fields that a configuration class has the wanted value for are left out here and there: its defaults count, too.
"""
import copy

VOCAB, BOS = 259, 256
COMMON = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": VOCAB,
          "max_position_embeddings": 512, "bos_token_id": BOS, "eos_token_id": 257}


def case(family, meaning, four, five=None, text=None, tokens=160):
    """A model; five is what the second spelling has besides and in place of four's fields; None there leaves one out."""
    old = {**COMMON, **four}
    new = {k: v for k, v in {**old, **(five or {})}.items() if v is not LEFT_OUT}
    m = {"family": family, "dim": 32, "hidden": 48, "heads": 4, "kv_heads": 2, "head_dim": 8, "eps": 1e-6, "vocab": VOCAB,
         "tokens": tokens, **meaning}
    if text:  # a larger model
        old, new = ({"model_type": text, "text_config": c, "vision_config": {"hidden_size": 7}} for c in (old, new))
    return {"config": {"4": old, "5": new}, "means": m}


LEFT_OUT = object()


def full(n, **more):
    return [{"sees": "all", **more} for _ in range(n)]


def every(n, of, local, rest):
    """n layers of which each of-th is rest and the others are local."""
    return [copy.deepcopy(rest if (i + 1) % of == 0 else local) for i in range(n)]


def cases():
    all = {}
    rope = {"theta": 10000.0}
    all["llama"] = case("llama", {"layers": full(3, rope={"theta": 5e5, "kind": "llama3", "factor": 8.0, "low": 1.0, "high": 4.0, "original": 64})},
        {"model_type": "llama", "num_hidden_layers": 3, "rope_theta": 5e5, "torch_dtype": "float32", "hidden_act": "silu",
         "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
        {"rope_theta": LEFT_OUT, "rope_scaling": LEFT_OUT, "torch_dtype": LEFT_OUT, "dtype": "float32",
         "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}})
    all["llama-linear"] = case("llama", {"layers": full(2, rope={"theta": 10000.0, "kind": "linear", "factor": 3.0}), "qkv_bias": True, "o_bias": True,
                                         "head_dim": 12, "tied": True, "eps": 1e-5},
        {"model_type": "llama", "num_hidden_layers": 2, "rope_scaling": {"type": "linear", "factor": 3.0}, "attention_bias": True,
         "head_dim": 12, "tie_word_embeddings": True, "rms_norm_eps": 1e-5},
        {"rope_scaling": LEFT_OUT, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "linear", "factor": 3.0}})
    all["mistral"] = case("mistral", {"layers": [{"sees": "window", "window": 24, "rope": rope}] * 3},
        {"model_type": "mistral", "num_hidden_layers": 3, "sliding_window": 24}, {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}})
    all["mistral-full"] = case("mistral", {"layers": full(2, rope={"theta": 1e6})},
        {"model_type": "mistral", "num_hidden_layers": 2, "sliding_window": None, "rope_theta": 1e6},
        {"rope_theta": LEFT_OUT, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}})
    yarn = {"theta": 1e6, "kind": "yarn", "factor": 4.0, "original": 128}
    all["qwen2"] = case("qwen2", {"layers": [*full(2, rope=yarn), *[{"sees": "window", "window": 20, "rope": yarn}] * 2], "qkv_bias": True},
        {"model_type": "qwen2", "num_hidden_layers": 4, "use_sliding_window": True, "sliding_window": 20, "max_window_layers": 2, "rope_theta": 1e6,
         "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}},
        {"max_window_layers": LEFT_OUT, "layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 2, "rope_theta": LEFT_OUT, "rope_scaling": LEFT_OUT,
         "rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}})
    all["qwen3"] = case("qwen3", {"layers": full(2, rope={"theta": 1e6}), "qk_norm": True, "head_dim": 128, "tied": True},
        {"model_type": "qwen3", "num_hidden_layers": 2, "rope_theta": 1e6, "sliding_window": None, "tie_word_embeddings": True, "eos_token_id": [257, 258]},
        {"rope_theta": LEFT_OUT, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}, "layer_types": ["full_attention"] * 2})
    gemma = {"unit": 1, "sandwich": True, "act": "gelu", "embed_scale": 32**0.5, "tied": True}
    two = {"rope": rope, "cap": 50.0, "scale": 256**-0.5}
    all["gemma2"] = case("gemma2", {**gemma, "layers": every(4, 2, {"sees": "window", "window": 16, **two}, {"sees": "all", **two}), "logit_cap": 30.0, "head_dim": 16},
        {"model_type": "gemma2", "num_hidden_layers": 4, "sliding_window": 16, "head_dim": 16, "hidden_act": "gelu"},
        {"layer_types": ["sliding_attention", "full_attention"] * 2, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "query_pre_attn_scalar": 256})
    local = {"sees": "window", "window": 16, "rope": rope, "scale": 24**-0.5}
    wide = {"sees": "all", "rope": {"theta": 1e6, "kind": "linear", "factor": 8.0}, "scale": 24**-0.5}
    all["gemma3"] = case("gemma3", {**gemma, "layers": every(7, 6, local, wide), "qk_norm": True, "head_dim": 16},
        {"model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 16, "head_dim": 16, "query_pre_attn_scalar": 24,
         "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"rope_scaling": LEFT_OUT, "layer_types": ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
         "rope_parameters": {"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                             "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}}, text="gemma3")
    oss = {"theta": 150000.0, "kind": "yarn", "factor": 32.0, "original": 4096, "truncate": False}
    all["gpt-oss"] = case("gpt_oss", {"layers": every(4, 2, {"sees": "window", "window": 18, "rope": oss, "experts": True}, {"sees": "all", "rope": oss, "experts": True}),
                                      "qkv_bias": True, "o_bias": True, "sinks": True, "experts": 6, "top": 4, "head_dim": 64, "eps": 1e-5},
        {"model_type": "gpt_oss", "num_hidden_layers": 4, "sliding_window": 18, "num_local_experts": 6, "swiglu_limit": 7.0},
        {"head_dim": 64, "num_experts_per_tok": 4, "attention_bias": True, "layer_types": ["sliding_attention", "full_attention"] * 2,
         "rope_parameters": {"rope_theta": 150000.0, "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096}})
    near = {"theta": 500000.0, "pairs": "neighbours"}
    chunk = {"sees": "chunk", "chunk": 32, "rope": near, "l2_norm": True}
    nope = {"sees": "all", "warm": (16, 0.1)}
    layers = every(4, 4, chunk, nope)
    for layer in layers[1::2]:
        layer["experts"] = True
    all["llama4"] = case("llama4", {"layers": layers, "experts": 4, "top": 1, "ffn": "feed_forward.", "expert_hidden": 24, "eps": 1e-5},
        {"model_type": "llama4_text", "num_hidden_layers": 4, "attention_chunk_size": 32, "floor_scale": 16, "num_local_experts": 4, "head_dim": 8,
         "intermediate_size": 24, "intermediate_size_mlp": 48, "interleave_moe_layer_step": 2},
        {"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "no_rope_layers": [1, 1, 1, 0], "moe_layers": [1, 3],
         "layer_types": ["chunked_attention"] * 3 + ["full_attention"], "use_qk_norm": True}, text="llama4")
    part = {"theta": 10000.0, "dims": 8}
    delta = {"sees": "all", "mixer": "delta", "experts": True}
    layers = every(4, 4, delta, {"sees": "all", "rope": part, "experts": True})
    del layers[1]["experts"]
    all["qwen3-next"] = case("qwen3_next", {"layers": layers, "unit": 1, "qk_norm": True, "gated": True, "head_dim": 32, "experts": 5, "top": 2, "normed": True,
            "expert_hidden": 16, "shared": "shared_expert", "shared_hidden": 20, "shared_gate": True, "delta": {"key_heads": 2, "value_heads": 4, "key_dim": 8, "value_dim": 12, "conv": 4}},
        {"model_type": "qwen3_next", "num_hidden_layers": 4, "head_dim": 32, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
         "shared_expert_intermediate_size": 20, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
         "mlp_only_layers": [1]},
        {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.25},
         "layer_types": ["linear_attention"] * 3 + ["full_attention"], "norm_topk_prob": True})
    layers = [{"sees": "all", "mixer": "delta"}, {"sees": "all", "rope": part, "experts": True}]
    all["qwen3-next-sparse"] = case("qwen3_next", {"layers": layers, "unit": 1, "qk_norm": True, "gated": True, "head_dim": 32, "experts": 6, "top": 3, "normed": False,
            "expert_hidden": 16, "shared": "shared_expert", "shared_hidden": 16, "shared_gate": True, "delta": {"key_heads": 2, "value_heads": 2, "key_dim": 8, "value_dim": 8, "conv": 3}},
        {"model_type": "qwen3_next", "num_hidden_layers": 2, "head_dim": 32, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
         "shared_expert_intermediate_size": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
         "linear_conv_kernel_dim": 3, "full_attention_interval": 2, "decoder_sparse_step": 2, "norm_topk_prob": False},
        {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.25}, "layer_types": ["linear_attention", "full_attention"]})
    # Without a ramp between frequencies, and with a factor on what rotates, of 512 tokens over 256.
    long = {"theta": 10000.0, "dims": 6, "kind": "long", "attention": 1.125 ** 0.5}
    short = {"short_factor": [1.0, 1.0, 1.0], "long_factor": [1.5, 2.0, 30.0], "original_max_position_embeddings": 256}
    all["phi3-long"] = case("phi3", {"layers": full(2, rope=long), "fused": True, "tied": True, "eps": 1e-5},
        {"model_type": "phi3", "num_hidden_layers": 2, "rope_scaling": {"type": "longrope", **short}, "partial_rotary_factor": 0.75,
         "tie_word_embeddings": True},
        {"rope_scaling": LEFT_OUT, "partial_rotary_factor": LEFT_OUT, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "longrope", "partial_rotary_factor": 0.75, **short}})
    all["phi3"] = case("phi3", {"layers": [{"sees": "window", "window": 22, "rope": rope}] * 2, "fused": True, "eps": 1e-5},
        {"model_type": "phi3", "num_hidden_layers": 2, "sliding_window": 22}, {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 1.0}})
    turned = {"theta": 10000.0, "pairs": "neighbours", "kind": "yarn", "factor": 40.0, "original": 64}
    mscale = lambda m: 0.1 * m * 3.6888794541139363 + 1  # the logarithm of 40
    mla = {"kv_heads": 4, "head_dim": 20, "plain_dim": 12, "rope_dim": 8, "value_dim": 12, "kv_rank": 16}
    all["deepseek-v2"] = case("deepseek_v2", {**mla, "query_rank": 0,
            "layers": full(2, mixer="latent", scale=20**-0.5 * mscale(0.707) ** 2, rope={**turned, "attention": 1.0})},
        {"model_type": "deepseek_v2", "num_hidden_layers": 2, "num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
         "v_head_dim": 12, "first_k_dense_replace": 2,
         "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1}},
        {"rope_scaling": LEFT_OUT, "n_routed_experts": None, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "yarn", "factor": 40.0, "mscale": 0.707,
             "mscale_all_dim": 0.707, "original_max_position_embeddings": 64, "beta_fast": 32.0, "beta_slow": 1.0}})
    all["deepseek-v3"] = case("deepseek_v3", {**mla, "query_rank": 24, "eps": 1e-3, "qkv_bias": True, "o_bias": True,  # norms of what is compressed keep 1e-6
            "layers": full(3, mixer="latent", scale=20**-0.5 * mscale(1.0) ** 2, rope={**turned, "attention": 1.0})},
        {"model_type": "deepseek_v3", "num_hidden_layers": 3, "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
         "v_head_dim": 12, "head_dim": 8, "rms_norm_eps": 1e-3, "attention_bias": True,
         "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64}},
        {"rope_scaling": LEFT_OUT, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64}})
    experts(all, oss, turned, mla, mscale)
    return all


def experts(all, oss, turned, mla, mscale):
    """Models of routed experts as they are published, and in the types that they are published in."""
    one = {"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}, "rope_theta": LEFT_OUT}
    layers = full(3, rope={"theta": 1e6}, experts=True)
    del layers[1]["experts"]
    all["qwen3-moe"] = case("qwen3_moe", {"layers": layers, "qk_norm": True, "head_dim": 16, "experts": 7, "top": 2, "normed": True, "expert_hidden": 24},
        {"model_type": "qwen3_moe", "num_hidden_layers": 3, "head_dim": 16, "rope_theta": 1e6, "num_experts": 7, "num_experts_per_tok": 2, "norm_topk_prob": True,
         "moe_intermediate_size": 24, "mlp_only_layers": [1], "decoder_sparse_step": 1},
        {**one, "num_experts": LEFT_OUT, "num_local_experts": 7, "decoder_sparse_step": LEFT_OUT})
    layers = full(4, rope={"theta": 1e6})
    layers[1]["experts"] = layers[3]["experts"] = True
    all["qwen2-moe"] = case("qwen2_moe", {"layers": layers, "qkv_bias": True, "experts": 6, "top": 3, "normed": False, "expert_hidden": 16,
                                          "shared": "shared_expert", "shared_hidden": 20, "shared_gate": True},
        {"model_type": "qwen2_moe", "num_hidden_layers": 4, "rope_theta": 1e6, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
         "shared_expert_intermediate_size": 20, "decoder_sparse_step": 2},
        {**one, "norm_topk_prob": False, "mlp_only_layers": [], "qkv_bias": True})
    all["mixtral"] = case("mixtral", {"layers": [{"sees": "window", "window": 30, "rope": {"theta": 1e6}, "experts": True}] * 2, "ffn": "block_sparse_moe.", "parts": ("w1", "w3", "w2"),
                                      "experts": 5, "top": 2, "normed": True, "expert_hidden": 48, "eps": 1e-5},
        {"model_type": "mixtral", "num_hidden_layers": 2, "sliding_window": 30, "num_local_experts": 5}, {**one, "num_experts_per_tok": 2})
    deep = {"num_key_value_heads": 4, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 12, "first_k_dense_replace": 1}
    long = {"rope_theta": 10000.0, "rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 64}
    layers = full(4, mixer="latent", scale=20**-0.5 * mscale(0.707) ** 2, rope={**turned, "attention": 1.0})
    layers[2]["experts"] = True  # of the layers from the first one on, every second
    all["deepseek-v2-moe"] = case("deepseek_v2", {**mla, "query_rank": 0, "layers": layers, "experts": 12, "top": 3, "normed": False, "route_scale": 1.5, "groups": 4, "top_groups": 2,
                                                  "group_best": 1, "expert_hidden": 16, "shared": "shared_experts", "shared_hidden": 32},
        {**deep, "model_type": "deepseek_v2", "num_hidden_layers": 4, "q_lora_rank": None, "n_routed_experts": 12, "num_experts_per_tok": 3, "moe_intermediate_size": 16,
         "moe_layer_freq": 2, "n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy", "scoring_func": "softmax", "routed_scaling_factor": 1.5,
         "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707, "original_max_position_embeddings": 64}},
        {"rope_scaling": LEFT_OUT, "scoring_func": LEFT_OUT, "n_shared_experts": 2, "norm_topk_prob": False, "rope_parameters": {**long, "mscale": 0.707, "mscale_all_dim": 0.707}})
    layers = full(3, mixer="latent", scale=20**-0.5 * mscale(1.0) ** 2, rope={**turned, "attention": 1.0})
    layers[1]["experts"] = layers[2]["experts"] = True
    fp8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [16, 24]}
    all["deepseek-v3-fp8"] = case("deepseek_v3", {**mla, "query_rank": 24, "layers": layers, "experts": 12, "top": 4, "normed": True, "route_scale": 2.5, "groups": 3, "top_groups": 2,
                                                  "group_best": 2, "sigmoid": True, "correction": True, "expert_hidden": 16, "shared": "shared_experts", "shared_hidden": 16, "block": (16, 24)},
        {**deep, "model_type": "deepseek_v3", "num_hidden_layers": 3, "q_lora_rank": 24, "n_routed_experts": 12, "num_experts_per_tok": 4, "moe_intermediate_size": 16,
         "moe_layer_freq": 1, "n_group": 3, "topk_group": 2, "topk_method": "noaux_tc", "scoring_func": "sigmoid", "quantization_config": fp8,
         "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64}},
        {"rope_scaling": LEFT_OUT, "topk_method": LEFT_OUT, "scoring_func": LEFT_OUT, "n_shared_experts": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5,
         "rope_parameters": {**long, "mscale": 1.0, "mscale_all_dim": 1.0}})
    two = [{"sees": "window", "window": 18, "rope": oss, "experts": True}, {"sees": "all", "rope": oss, "experts": True}]
    mxfp4 = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    all["gpt-oss-mxfp4"] = case("gpt_oss", {"layers": two, "hidden": 64, "qkv_bias": True, "o_bias": True, "sinks": True, "experts": 5, "top": 2, "head_dim": 64, "eps": 1e-5, "coded": True},
        {"model_type": "gpt_oss", "num_hidden_layers": 2, "intermediate_size": 64, "sliding_window": 18, "num_local_experts": 5, "num_experts_per_tok": 2, "quantization_config": mxfp4},
        {"layer_types": ["sliding_attention", "full_attention"], "swiglu_limit": 7.0})
