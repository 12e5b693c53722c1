#!/usr/bin/env python3
"""The demo model as GGUF, in F16: `scripts/models/demo.py PATH` writes it."""
import json
import os
import struct
import sys

sys.dont_write_bytecode = True
import gguf

MODEL = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "testdata", "model")


def pairs(data, heads, rows, width):
    """The rows of each head in the order that has the two of a rotated pair beside each other."""
    row, each = [data[i * width:(i + 1) * width] for i in range(rows)], rows // heads
    return b"".join(row[h * each + half * each // 2 + i] for h in range(heads) for i in range(each // 2) for half in range(2))


def write(path):
    """The demo model as GGUF."""
    c = json.load(open(os.path.join(MODEL, "config.json")))
    data = open(os.path.join(MODEL, "model.safetensors"), "rb").read()
    size = struct.unpack_from("<Q", data)[0]
    header, data = json.loads(data[8:8 + size]), data[8 + size:]
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm"}
    for i in range(c["num_hidden_layers"]):
        for ours, theirs in {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
                             "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
                             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}.items():
            names[f"model.layers.{i}.{ours}"] = f"blk.{i}.{theirs}"
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    meta = {
        "general.architecture": "llama", "llama.vocab_size": c["vocab_size"], "llama.context_length": c["max_position_embeddings"],
        "llama.embedding_length": c["hidden_size"], "llama.block_count": c["num_hidden_layers"],
        "llama.feed_forward_length": c["intermediate_size"], "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": kv, "llama.rope.dimension_count": c["head_dim"], "llama.rope.freq_base": c["rope_theta"],
        "llama.attention.layer_norm_rms_epsilon": c["rms_norm_eps"], "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [f"<0x{i:02X}>" if i != 32 else "▁" for i in range(256)] + ["<s>", "</s>", "<pad>"],  # a text has ▁ for its spaces
        "tokenizer.ggml.scores": [0.0] * 259, "tokenizer.ggml.token_type": [6 if i != 32 else 1 for i in range(256)] + [3] * 3, "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.ggml.bos_token_id": c["bos_token_id"], "tokenizer.ggml.eos_token_id": c["eos_token_id"],
    }
    tensors = []
    for name, new in names.items():
        t = header[name + ".weight"]
        assert t["dtype"] == "F16", t
        shape, kind, raw = t["shape"], "F16", data[t["data_offsets"][0]:t["data_offsets"][1]]
        if len(shape) == 1:  # norms are in f32
            kind, raw = "F32", struct.pack(f"<{shape[0]}f", *struct.unpack(f"<{shape[0]}e", raw))
        for part, n in {"q_proj": heads, "k_proj": kv}.items():
            if name.endswith(part):
                raw = pairs(raw, n, shape[0], shape[1] * 2)
        tensors.append((new + ".weight", shape, kind, raw))
    gguf.write(path, meta, tensors)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(sys.argv[1])
