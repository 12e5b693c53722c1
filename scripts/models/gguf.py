"""GGUF files, as the specification has them: metadata, descriptions of tensors, and their blocks."""
import math
import os
import struct

# Number of a type, elements of a block, and the bytes that it takes.
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22),
         "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144),
         "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "IQ4_NL": (20, 32, 18), "IQ4_XS": (23, 256, 136), "MXFP4": (39, 32, 17),
         "IQ2_S": (22, 256, 82)}  # the last one for a file that is to be refused
ALIGN = 32


def size(kind, shape):
    """Bytes of a tensor whose last dimension is contiguous."""
    _, block, width = TYPES[kind]
    assert shape[-1] % block == 0, f"rows of {shape[-1]} are no multiple of {block}, the block of {kind}"
    return math.prod(shape) // block * width


def string(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def value(v):
    """A metadata value: its type and its bits."""
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + string(v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, list):
        kind = b"\5\0\0\0" if isinstance(v[0], int) else value(v[0])[:4]  # lists have signed numbers
        return struct.pack("<I", 9) + kind + struct.pack("<Q", len(v)) + b"".join(struct.pack("<i", e) if isinstance(e, int) else value(e)[4:] for e in v)
    return struct.pack("<II", 4, v)


def write(path, meta, tensors):
    """tensors are (name, shape, type, data): the blocks as bytes, or chunks of them, which may be made while they are written. None is a hole of zeros."""
    info, at = b"", 0
    for name, shape, kind, _ in tensors:
        info += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), TYPES[kind][0], at)
        at += -(-size(kind, shape) // ALIGN) * ALIGN
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta)) + b"".join(string(k) + value(v) for k, v in meta.items()) + info
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % ALIGN))
        for name, shape, kind, data in tensors:
            begin = f.tell()
            if data is None:
                f.truncate(begin + size(kind, shape))
                f.seek(0, os.SEEK_END)
            for chunk in [data] if isinstance(data, bytes) else data or []:
                f.write(chunk)
            wrote = f.tell() - begin
            assert wrote == size(kind, shape), f"{name}: {wrote} bytes"
            f.write(bytes(-wrote % ALIGN))


# Vocabularies: what llama.cpp needs to load a file, and so small that every text goes through their merges.

WORDS = "the and was her said they once upon time girl little dog ball happy played friend mother water letter tree opened together".split()


def ends(word):
    """What a word is merged from, one character after another."""
    return [word[:n] for n in range(2, len(word) + 1)]


def sentencepiece():
    """Pieces with scores and bytes for the rest, which Llama 2, Gemma and Phi-3 have. Tokens 0 to 2 are special."""
    single = ["▁", *map(chr, range(0x21, 0x7f))]
    merged = list(dict.fromkeys(part for w in WORDS for part in ends("▁" + w) + ends(w)))
    tokens = ["<unk>", "<s>", "</s>", *[f"<0x{i:02X}>" for i in range(256)], *merged, *single]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (len(merged) + len(single))
    scores = [0.0] * 259 + [float(-i) for i in range(len(merged) + len(single))]
    return {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0}


def byte_level(pre, bos):
    """Byte-level BPE, which GPT-2, Llama 3, Qwen and gpt-oss have: each byte is a character, Ġ a space."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    single = [*map(chr, plain), *(chr(256 + i) for i in range(len(rest)))]
    merged = list(dict.fromkeys(part for w in WORDS for part in ends("Ġ" + w) + ends(w)))
    tokens = [*single, *merged, "<|begin|>", "<|end|>"]
    out = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [1] * (len(tokens) - 2) + [3] * 2,
           "tokenizer.ggml.merges": [f"{part[:-1]} {part[-1]}" for part in merged], "tokenizer.ggml.eos_token_id": len(tokens) - 1, "tokenizer.ggml.add_bos_token": bos}
    return {**out, "tokenizer.ggml.bos_token_id": len(tokens) - 2} if bos else out
