"""What each architecture computes, in float64 and as plainly as possible.

Written from the papers and from what the fields of Hugging Face's configurations mean. It shares nothing with
cmd/internal/runner, not even how a configuration is read: cases.py says what each tiny model is to compute.
A whole text is computed at once, without a cache.
"""
import math

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rms(x, weight=None, eps=1e-6):
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return y if weight is None else y * weight


# Rotary embeddings.

def frequencies(rope, dims):
    """Radians per position of each pair, and the factor on what rotates."""
    theta = rope["theta"]
    f = np.array([theta ** (-2 * i / dims) for i in range(dims // 2)])
    kind = rope.get("kind", "default")
    if kind == "default":
        return f, 1.0
    by = rope.get("factor")
    if kind == "long":
        return f, rope["attention"]
    if kind == "linear":
        return f / by, 1.0
    if kind == "llama3":
        low, high = rope["original"] / rope["low"], rope["original"] / rope["high"]  # wavelengths
        out = []
        for x in f:
            wave = 2 * math.pi / x
            if wave < high:
                out.append(x)
            elif wave > low:
                out.append(x / by)
            else:
                smooth = (rope["original"] / wave - rope["low"]) / (rope["high"] - rope["low"])
                out.append((1 - smooth) * x / by + smooth * x)
        return np.array(out), 1.0
    assert kind == "yarn"

    def pair(turns):  # that turns so often over the original context
        return dims * math.log(rope["original"] / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(rope.get("fast", 32)), pair(rope.get("slow", 1))
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dims - 1)
    if low == high:
        high += 0.001
    keep = 1 - np.clip((np.arange(dims // 2) - low) / (high - low), 0, 1)
    return f / by * (1 - keep) + f * keep, rope.get("attention", 0.1 * math.log(by) + 1)


def rotate(x, rope):
    """The leading dims of x [tokens, heads, dim], at positions 0, 1, ..."""
    dims = rope.get("dims", x.shape[-1])
    f, factor = frequencies(rope, dims)
    angle = np.arange(x.shape[0])[:, None, None] * f
    cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
    out = x.copy()
    if rope.get("pairs") == "neighbours":
        a, b = slice(0, dims, 2), slice(1, dims, 2)
    else:
        a, b = slice(0, dims // 2), slice(dims // 2, dims)
    out[..., a] = x[..., a] * cos - x[..., b] * sin
    out[..., b] = x[..., b] * cos + x[..., a] * sin
    return out


# Sublayers. w(name) is a weight of the layer.

def visible(tokens, layer):
    q, k = np.arange(tokens)[:, None], np.arange(tokens)[None, :]
    see = k <= q
    if layer["sees"] == "window":
        see &= q - k < layer["window"]
    if layer["sees"] == "chunk":
        see &= q // layer["chunk"] == k // layer["chunk"]
    return see


def attend(q, k, v, layer, sinks=None):
    """q [tokens, heads, dim], k and v [tokens, KV heads, ...] -> [tokens, heads * value dim]."""
    tokens, heads, dim = q.shape
    see, out = visible(tokens, layer), []
    for h in range(heads):
        of = h // (heads // k.shape[1])
        score = q[:, h] @ k[:, of].T * layer.get("scale", dim**-0.5)
        if layer.get("cap"):
            score = layer["cap"] * np.tanh(score / layer["cap"])
        score = np.where(see, score, -np.inf)
        if sinks is not None:
            score = np.concatenate([score, np.full((tokens, 1), sinks[h])], 1)
        out.append(softmax(score)[:, :tokens] @ v[:, of])
    return np.concatenate(out, 1)


def linear(x, w, name, bias=False):
    y = x @ w(name + ".weight").T
    return y + w(name + ".bias") if bias else y


def self_attention(x, w, m, layer):
    tokens, dim = len(x), m["head_dim"]
    bias = m.get("qkv_bias", False)
    if m.get("fused"):
        of = m["heads"] * dim
        q, k, v = np.split(linear(x, w, "self_attn.qkv_proj", bias), [of, of + m["kv_heads"] * dim], 1)
    else:
        q, k, v = (linear(x, w, f"self_attn.{name}_proj", bias) for name in "qkv")
    q, k, v = (y.reshape(tokens, heads, -1) for y, heads in ((q, m["heads"]), (k, m["kv_heads"]), (v, m["kv_heads"])))
    if m.get("gated"):
        q, gate = q[..., :dim], q[..., dim:]
    if m.get("qk_norm"):
        add = m.get("unit", 0)
        q = rms(q, w("self_attn.q_norm.weight") + add, m["eps"])
        k = rms(k, w("self_attn.k_norm.weight") + add, m["eps"])
    if layer.get("rope"):
        q, k = rotate(q, layer["rope"]), rotate(k, layer["rope"])
        if layer.get("l2_norm"):
            q, k = rms(q, eps=m["eps"]), rms(k, eps=m["eps"])
    elif layer.get("warm"):
        floor, by = layer["warm"]
        q = q * (np.log(np.floor((np.arange(tokens) + 1) / floor) + 1) * by + 1)[:, None, None]
    y = attend(q, k, v, layer, w("self_attn.sinks") if m.get("sinks") else None)
    if m.get("gated"):
        y = y * sigmoid(gate.reshape(tokens, -1))
    return linear(y, w, "self_attn.o_proj", m.get("o_bias", False))


def latent_attention(x, w, m, layer):
    tokens, heads, plain, turns = len(x), m["heads"], m["plain_dim"], m["rope_dim"]
    if m["query_rank"]:
        q = linear(rms(linear(x, w, "self_attn.q_a_proj", m.get("qkv_bias")), w("self_attn.q_a_layernorm.weight"), 1e-6), w, "self_attn.q_b_proj")
    else:
        q = linear(x, w, "self_attn.q_proj")
    q = q.reshape(tokens, heads, plain + turns)
    both = linear(x, w, "self_attn.kv_a_proj_with_mqa", m.get("qkv_bias"))
    packed = rms(both[:, : m["kv_rank"]], w("self_attn.kv_a_layernorm.weight"), 1e-6)
    kv = linear(packed, w, "self_attn.kv_b_proj").reshape(tokens, heads, plain + m["value_dim"])
    q_turned = rotate(q[..., plain:], layer["rope"])
    k_turned = rotate(both[:, None, m["kv_rank"]:], layer["rope"]).repeat(heads, 1)
    q = np.concatenate([q[..., :plain], q_turned], -1)
    k = np.concatenate([kv[..., :plain], k_turned], -1)
    return linear(attend(q, k, kv[..., plain:], layer), w, "self_attn.o_proj", m.get("o_bias"))


def delta_net(x, w, m, layer):
    """Gated delta net (arXiv:2412.06464): one state for each value head, token by token."""
    d, tokens = m["delta"], len(x)
    kh, vh, kd, vd, taps = d["key_heads"], d["value_heads"], d["key_dim"], d["value_dim"], d["conv"]
    each = vh // kh
    parts = linear(x, w, "linear_attn.in_proj_qkvz").reshape(tokens, kh, 2 * kd + 2 * each * vd)
    q, k, v, z = np.split(parts, [kd, 2 * kd, 2 * kd + each * vd], -1)
    gates = linear(x, w, "linear_attn.in_proj_ba").reshape(tokens, kh, 2 * each)
    beta, a = sigmoid(gates[..., :each].reshape(tokens, vh)), gates[..., each:].reshape(tokens, vh)
    decay = np.exp(-np.exp(w("linear_attn.A_log")) * np.log1p(np.exp(a + w("linear_attn.dt_bias"))))

    flat = np.concatenate([q.reshape(tokens, -1), k.reshape(tokens, -1), v.reshape(tokens, -1)], 1)
    kernel = w("linear_attn.conv1d.weight")[:, 0]
    padded = np.concatenate([np.zeros((taps - 1, flat.shape[1])), flat])
    flat = silu(sum(padded[i:i + tokens] * kernel[:, i] for i in range(taps)))
    q, k, v = np.split(flat, [kh * kd, 2 * kh * kd], 1)
    q, k, v = q.reshape(tokens, kh, kd), k.reshape(tokens, kh, kd), v.reshape(tokens, vh, vd)
    unit = lambda y: y / np.sqrt((y * y).sum(-1, keepdims=True) + 1e-6)
    q, k = unit(q).repeat(each, 1) / math.sqrt(kd), unit(k).repeat(each, 1)

    out, state = np.zeros((tokens, vh, vd)), np.zeros((vh, kd, vd))
    for t in range(tokens):
        for h in range(vh):
            state[h] *= decay[t, h]
            wrong = v[t, h] - k[t, h] @ state[h]
            state[h] += np.outer(k[t, h], beta[t, h] * wrong)
            out[t, h] = q[t, h] @ state[h]
    out = rms(out, w("linear_attn.norm.weight"), m["eps"]) * silu(z.reshape(tokens, vh, vd))
    return linear(out.reshape(tokens, -1), w, "linear_attn.out_proj")


def fused_block(x, w, name, act):
    gate, up = np.split(x @ w(name + "gate_up_proj.weight").T, 2, 1)
    return (act(gate) * up) @ w(name + "down_proj.weight").T


def gated_block(x, w, name, act, parts=("gate_proj", "up_proj", "down_proj")):
    gate, up, down = (w(f"{name}{part}.weight").T for part in parts)
    return (act(x @ gate) * (x @ up)) @ down


ACTS = {"silu": silu, "gelu": gelu_tanh}


def gpt_oss_experts(x, w, m):
    scores, out = x @ w("mlp.router.weight").T + w("mlp.router.bias"), np.zeros_like(x)
    for t, s in enumerate(scores):
        best = np.argsort(-s)[: m["top"]]
        for e, weight in zip(best, softmax(s[best])):
            both = x[t] @ w("mlp.experts.gate_up_proj")[e] + w("mlp.experts.gate_up_proj_bias")[e]
            gate, up = np.minimum(both[::2], 7), np.clip(both[1::2], -7, 7)
            inner = (up + 1) * gate * sigmoid(1.702 * gate)
            out[t] += weight * (inner @ w("mlp.experts.down_proj")[e] + w("mlp.experts.down_proj_bias")[e])
    return out


def llama4_experts(x, w, m):
    scores, out = x @ w("feed_forward.router.weight").T, gated_block(x, w, "feed_forward.shared_expert.", silu)
    for t, s in enumerate(scores):
        for e in np.argsort(-s)[: m["top"]]:
            gate, up = np.split(sigmoid(s[e]) * x[t] @ w("feed_forward.experts.gate_up_proj")[e], 2)
            out[t] += (silu(gate) * up) @ w("feed_forward.experts.down_proj")[e]
    return out


def chosen(p, m, correction):
    """Which experts a token has, of their scores p."""
    compared = p + correction
    if m.get("groups"):
        groups = compared.reshape(m["groups"], -1)
        strength = np.sort(groups, 1)[:, -m["group_best"]:].sum(1)
        outside = np.argsort(-strength)[m["top_groups"]:]
        groups = groups.copy()
        groups[outside] = -np.inf
        compared = groups.reshape(-1)
    return np.argsort(-compared)[: m["top"]]


def routed_experts(x, w, m):
    """Qwen's, Mixtral's and DeepSeek's: each expert has matrices of its own."""
    ffn, parts = m.get("ffn", "mlp."), m.get("parts", ("gate_proj", "up_proj", "down_proj"))
    out, scores = np.zeros_like(x), x @ w(ffn + "gate.weight").T
    if m.get("shared"):
        out = gated_block(x, w, ffn + m["shared"] + ".", silu)
    if m.get("shared_gate"):
        out = out * sigmoid(x @ w(ffn + "shared_expert_gate.weight").T)
    correction = w(ffn + "gate.e_score_correction_bias") if m.get("correction") else 0
    for t, p in enumerate(sigmoid(scores) if m.get("sigmoid") else softmax(scores)):
        best = chosen(p, m, correction)
        for e in best:
            weight = m.get("route_scale", 1) * p[e] / (p[best].sum() if m["normed"] else 1)
            out[t] += weight * gated_block(x[t], w, f"{ffn}experts.{e}.", silu, parts)
    return out


# Weights that are stored as codes.

def float8(codes):
    """E4M3: 1 bit of sign, 4 of exponent, 3 of mantissa."""
    c = codes.astype(int)
    sign, exponent, mantissa = np.where(c & 128, -1.0, 1.0), c >> 3 & 15, c & 7
    return sign * np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def float4(codes):
    """E2M1: 1 bit of sign, 2 of exponent, 1 of mantissa."""
    c = codes.astype(int)
    sign, exponent, mantissa = np.where(c & 8, -1.0, 1.0), c >> 1 & 3, c & 1
    return sign * np.where(exponent == 0, mantissa / 2, (1 + mantissa / 2) * 2.0 ** (exponent - 1))


def decoded(weights, block):
    """All weights as numbers, of which some are codes with scales in tensors beside them."""
    out = {}
    for name, v in weights.items():
        if name + "_scale_inv" in weights:
            rows, cols = v.shape
            scale = weights[name + "_scale_inv"]
            v = float8(v) * scale.repeat(block[0], 0).repeat(block[1], 1)[:rows, :cols]
        elif name.endswith("_blocks"):
            name = name.removesuffix("_blocks")
            pairs = np.stack([float4(v & 15), float4(v >> 4)], -1)  # the lower half of a byte first
            power = 2.0 ** (weights[name + "_scales"].astype(int) - 127)
            v = pairs.reshape(*pairs.shape[:3], 32) * power[..., None]
            v = v.reshape(*v.shape[:2], -1).transpose(0, 2, 1)  # [experts, inputs, outputs]
        out[name] = v
    return out


EXPERTS = {"gpt_oss": gpt_oss_experts, "llama4": llama4_experts}
MIXERS = {"attention": self_attention, "latent": latent_attention, "delta": delta_net}


def logits(m, weights, tokens):
    """The logits [tokens, vocabulary] of a model m."""
    add, eps = m.get("unit", 0), m["eps"]
    x = weights["model.embed_tokens.weight"][tokens] * m.get("embed_scale", 1)
    for i, layer in enumerate(m["layers"]):
        w = lambda name, i=i: weights[f"model.layers.{i}.{name}"]
        norm = lambda y, name: rms(y, w(name + ".weight") + add, eps)
        y = MIXERS[layer.get("mixer", "attention")](norm(x, "input_layernorm"), w, m, layer)
        if m.get("sandwich"):
            x = x + norm(y, "post_attention_layernorm")
            inner = norm(x, "pre_feedforward_layernorm")
        else:
            x = x + y
            inner = norm(x, "post_attention_layernorm")
        if layer.get("experts"):
            y = EXPERTS.get(m["family"], routed_experts)(inner, w, m)
        else:
            y = (fused_block if m.get("fused") else gated_block)(inner, w, m.get("ffn", "mlp."), ACTS[m.get("act", "silu")])
        x = x + (norm(y, "post_feedforward_layernorm") if m.get("sandwich") else y)
    x = rms(x, weights["model.norm.weight"] + add, eps)
    out = x @ weights["model.embed_tokens.weight" if m.get("tied") else "lm_head.weight"].T
    if m.get("logit_cap"):
        out = m["logit_cap"] * np.tanh(out / m["logit_cap"])
    return out
