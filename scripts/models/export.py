"""Tiny models of the architectures of GGUF, in any type of blocks: those of cases.py with rows of 256, which k-quants need.

Weights are the seeded ones. Matrices are in the type that is asked for, what has one dimension and routers in F32, as in published files.
"""
import importlib.machinery
import importlib.util
import os
import re

import numpy as np

import gguf
from cases import cases
from oracle import frequencies
from weights import values

loader = importlib.machinery.SourceFileLoader("figures", os.path.join(os.path.dirname(os.path.abspath(__file__)), "figures"))
figures = importlib.util.module_from_spec(importlib.util.spec_from_loader("figures", loader))
loader.exec_module(figures)

# What GGUF calls the parts of a layer, and what comes after the two sublayers where there are norms before and after each.
NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up", "self_attn.sinks": "attn_sinks.weight", "mlp.router": "ffn_gate_inp",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.experts.gate_proj": "ffn_gate_exps",
         "mlp.experts.up_proj": "ffn_up_exps", "mlp.experts.down_proj": "ffn_down_exps"}
SANDWICH = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def models():
    """By name: the architecture, what the model is, its vocabulary, and metadata besides what all have."""
    means = {name: case["means"] for name, case in cases().items()}
    plain, qwen = means["mistral-full"], {**means["qwen3"], "tied": False}
    experts = {"attention.sliding_window": 18, "expert_count": 6, "expert_used_count": 4, "expert_feed_forward_length": 256, "rope.scaling.type": "yarn",
               "rope.scaling.factor": 32.0, "rope.scaling.original_context_length": 4096, "rope.freq_base": 150000.0}
    moe = {"expert_count": 6, "expert_used_count": 3, "expert_feed_forward_length": 256, "rope.freq_base": 1e6}
    spm, level = gguf.sentencepiece(), gguf.byte_level
    spaceless = {**spm, "tokenizer.ggml.add_space_prefix": False}
    return {
        "llama": ("llama", plain, spm, {"rope.freq_base": 1e6}),
        "llama, rope_freqs": ("llama", means["llama"], level("llama-bpe", True), {"rope.freq_base": 5e5}),
        "qwen2": ("qwen2", means["qwen2"], level("qwen2", False), {"rope.freq_base": 1e6}),
        "qwen3": ("qwen3", qwen, level("qwen2", False), {"rope.freq_base": 1e6}),
        "qwen3moe": ("qwen3moe", {**qwen, "routed": 6}, level("qwen2", False), moe),
        "gemma2": ("gemma2", means["gemma2"], spaceless, {"attention.sliding_window": 16, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}),
        "gemma3": ("gemma3", means["gemma3"], spaceless, {"attention.sliding_window": 16, "rope.freq_base": 1e6, "rope.scaling.type": "linear", "rope.scaling.factor": 8.0}),
        "gpt-oss": ("gpt-oss", means["gpt-oss"], level("gpt-4o", True), experts),
        "phi3": ("phi3", plain, spm, {"rope.freq_base": 10000.0}),
    }


def tensors(name, arch, m):
    """Arrays by their names in GGUF."""
    m = {**m, "dim": 256, "hidden": 256, "head_dim": max(m["head_dim"], 64), "embed_scale": m.get("embed_scale") and 16}
    all = {t: values(f"{name} {t}", shape, center, spread) for t, shape, center, spread in figures.shapes(m)}
    if m["embed_scale"]:  # else the output, which is the embedding, has a token follow itself
        all["model.embed_tokens.weight"] /= 4
    for i, layer in enumerate(m["layers"]):
        at = f"model.layers.{i}."
        if arch == "llama":
            neighbours(all, at, m)
        if arch == "phi3":
            all[at + "self_attn.qkv_proj.weight"] = np.concatenate([all.pop(f"{at}self_attn.{p}_proj.weight") for p in "qkv"])
            all[at + "mlp.gate_up_proj.weight"] = np.concatenate([all.pop(f"{at}mlp.{p}_proj.weight") for p in ("gate", "up")])
        if m.get("routed"):
            for part in ("gate", "up", "down"):
                del all[f"{at}mlp.{part}_proj.weight"]
                all[f"{at}mlp.experts.{part}_proj.weight"] = values(f"{name} {at}{part}", [m["routed"], 256, 256], 0.0, round((3 / 256) ** 0.5, 6))
            all[at + "mlp.router.weight"] = values(f"{name} {at}router", [m["routed"], 256], 0.0, 0.3)
        elif layer.get("experts"):
            split(all, at + "mlp.experts.")
    if arch == "llama" and m["layers"][0]["rope"].get("kind") == "llama3":
        dims = m["head_dim"]
        plain, _ = frequencies({"theta": m["layers"][0]["rope"]["theta"]}, dims)
        scaled, _ = frequencies(m["layers"][0]["rope"], dims)
        all["rope_freqs.weight"] = plain / scaled
    if arch.startswith("gemma"):  # whose norms are stored with their 1
        all = {t: a + m["unit"] if t.endswith("norm.weight") else a for t, a in all.items()}
    return {renamed(t, m): np.ascontiguousarray(a, "<f4") for t, a in all.items()}


def neighbours(all, at, m):
    """Rows of queries and keys in the order that has the two of a rotated pair beside each other."""
    for part in ("q", "k"):
        for kind in ("weight", "bias"):
            t = f"{at}self_attn.{part}_proj.{kind}"
            if t in all:
                a = all[t]
                all[t] = a.reshape(-1, 2, m["head_dim"] // 2, *a.shape[1:]).swapaxes(1, 2).reshape(a.shape)


def split(all, at):
    """gpt-oss's experts: gate and up apart, and matrices [outputs, inputs]."""
    both, bias, down = all.pop(at + "gate_up_proj"), all.pop(at + "gate_up_proj_bias"), all.pop(at + "down_proj")
    for i, part in enumerate(("gate", "up")):
        all[f"{at}{part}_proj.weight"], all[f"{at}{part}_proj.bias"] = both[..., i::2].swapaxes(1, 2), bias[:, i::2]
    all[at + "down_proj.weight"], all[at + "down_proj.bias"] = down.swapaxes(1, 2), all.pop(at + "down_proj_bias")


def renamed(t, m):
    found = re.fullmatch(r"model\.layers\.(\d+)\.(.+?)(\.weight|\.bias|)", t)
    if not found:
        stem, _, kind = t.rpartition(".")
        return f"{TOP.get(stem, stem)}.{kind}"
    layer, stem, kind = found.groups()
    if m["family"] == "gpt_oss" and stem == "post_attention_layernorm":
        return f"blk.{layer}.post_attention_norm{kind}"
    return f"blk.{layer}.{(SANDWICH if m.get('sandwich') else {}).get(stem) or NAMES[stem]}{kind}"


def write(library, path, name, kind, exact=False):
    """A file whose matrices are in a type, or in F32 with the numbers that they have in that type."""
    arch, m, vocabulary, more = models()[name]
    m = {**m, "vocab": len(vocabulary["tokenizer.ggml.tokens"])}
    head = max(m["head_dim"], 64)
    meta = {"general.architecture": arch, **{f"{arch}.{k}": v for k, v in {
        "context_length": 512, "embedding_length": 256, "block_count": len(m["layers"]), "feed_forward_length": 256, "attention.head_count": m["heads"],
        "attention.head_count_kv": m["kv_heads"], "attention.key_length": head, "attention.value_length": head, "rope.dimension_count": head,
        "attention.layer_norm_rms_epsilon": m["eps"], **more}.items()}, **vocabulary}
    out = []
    for t, a in tensors(name, arch, m).items():
        used = kind if a.ndim > 1 and t.endswith(".weight") and "ffn_gate_inp" not in t else "F32"
        data = a.tobytes() if used == "F32" else library.quantized(used, a)
        if exact and used != "F32":
            used, data = "F32", library.dequantized(used, data)
        out.append((t, a.shape, used, data))
    gguf.write(path, meta, out)
