#!/usr/bin/env python3
"""llama.cpp's library, which npm has built for this machine: run, it prints the folder, or ends with 77. Of its structures only defaults are used, but for a few fields whose place is checked."""
import ctypes
import heapq
import os
import platform
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import gguf

PACKAGE, VERSION = "@node-llama-cpp/linux-" + {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine()), "3.22.1"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def folder():
    """The folder of the library, which is downloaded into build if it is not there, or exits with why it cannot be."""
    into = os.path.join(ROOT, "build", f"llama.cpp-{VERSION}")
    bins = os.path.join(into, "package", "bins", PACKAGE.split("/")[1])
    if os.path.isdir(bins):
        return linked(bins)
    try:
        os.makedirs(os.path.dirname(into), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(into)) as tmp:
            subprocess.run(["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}", "--pack-destination", tmp], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["tar", "-xzf", *[f for f in os.listdir(tmp) if f.endswith(".tgz")]], cwd=tmp, check=True)
            os.rename(tmp, into)
            os.mkdir(tmp)  # for its end
    except (OSError, subprocess.CalledProcessError) as e:
        sys.exit(f"{sys.argv[0]}: skipped: llama.cpp's library is not here, and npm does not bring {PACKAGE}@{VERSION}: {e}")
    return linked(bins)


def linked(bins):
    """The folder, in which libraries that have a version in their names have one without it, too, by which programs load them."""
    for name in os.listdir(bins):
        plain = re.sub(r"\.v[\d.]+\.so$", ".so", name)
        if not os.path.lexists(os.path.join(bins, plain)):
            os.symlink(name, os.path.join(bins, plain))
    return bins


class Params(ctypes.Structure):
    _fields_ = [("ints", ctypes.c_int32 * 256)]  # at least as large as any of theirs


class Batch(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int32), ("tokens", ctypes.POINTER(ctypes.c_int32)), ("rest", ctypes.c_void_p * 5)]


class Library:
    def __init__(self, folder):
        load = lambda name: ctypes.CDLL(next(os.path.join(folder, f) for f in sorted(os.listdir(folder)) if f.startswith(name)), ctypes.RTLD_GLOBAL)
        self.base, self.ggml, self.llama = load("libggml-base"), load("libggml."), load("libllama.")
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        self.llama.llama_log_set(self.quiet, None)
        self.ggml.ggml_backend_load_all_from_path(folder.encode())
        p, i, l, f = ctypes.c_void_p, ctypes.c_int32, self.llama, ctypes.POINTER(ctypes.c_float)
        for name, result, *arguments in [
                ("model_default_params", Params), ("context_default_params", Params), ("model_load_from_file", p, ctypes.c_char_p, Params),
                ("init_from_model", p, p, Params), ("get_memory", p, p), ("batch_get_one", Batch, ctypes.POINTER(i), i), ("decode", i, p, Batch),
                ("synchronize", None, p), ("memory_clear", None, p, ctypes.c_bool), ("memory_seq_rm", ctypes.c_bool, p, i, i, i), ("get_logits_ith", f, p, i), ("free", None, p), ("model_free", None, p),
                ("print_system_info", ctypes.c_char_p), ("model_get_vocab", p, p), ("vocab_n_tokens", i, p),
                ("tokenize", i, p, ctypes.c_char_p, i, ctypes.POINTER(i), i, ctypes.c_bool, ctypes.c_bool), ("vocab_is_control", ctypes.c_bool, p, i),
                ("token_to_piece", i, p, i, ctypes.c_char_p, i, i, ctypes.c_bool), ("vocab_is_eog", ctypes.c_bool, p, i)]:
            function = getattr(l, "llama_" + name)
            function.restype, function.argtypes = result, arguments
        self.base.ggml_quantize_chunk.restype = ctypes.c_size_t
        self.base.ggml_quantize_chunk.argtypes = [i, p, p, *[ctypes.c_int64] * 3, p]

    def info(self):
        return self.llama.llama_print_system_info().decode()

    def quantized(self, kind, data):
        """The blocks of an array of float32 [rows, columns]."""
        out = ctypes.create_string_buffer(gguf.size(kind, data.shape))
        wrote = self.base.ggml_quantize_chunk(gguf.TYPES[kind][0], data.ctypes.data, out, 0, data.size // data.shape[-1], data.shape[-1], None)
        assert wrote == len(out), (kind, data.shape, wrote)
        return out.raw

    def dequantized(self, kind, data):
        """The float32 of blocks, as bytes."""
        _, block, width = gguf.TYPES[kind]
        n = len(data) // width * block
        out = ctypes.create_string_buffer(4 * n)
        name = {"F16": "ggml_fp16_to_fp32_row", "BF16": "ggml_bf16_to_fp32_row"}.get(kind, "dequantize_row_" + kind.lower().replace("_k", "_K"))
        function = getattr(self.base, name)
        function.restype, function.argtypes = None, [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64]
        function(data, out, n)
        return out.raw


class Model:
    """A model with a cache in float32, or in llama.cpp's own type, of one sequence."""

    def __init__(self, library, path, threads=1, context=512, f32=True, streams=1):
        self.lib = library.llama
        self.model = self.lib.llama_model_load_from_file(path.encode(), self.lib.llama_model_default_params())
        params = self.lib.llama_context_default_params()
        ints = params.ints  # of version 0.5.0
        assert ints[0] == 512 and ints[7] == ints[8] and ints[1:4] == [2048, 512, 1] and ints[13] == -1 and ints[26] == ints[27] == 1, "the library's structures are others than those of the version that is pinned"
        ints[0], ints[3], ints[7], ints[8] = context, streams, threads, threads
        if f32:
            ints[13] = ints[26] = ints[27] = 0  # no flash attention, types of keys and values
        self.ctx = self.model and self.lib.llama_init_from_model(self.model, params)
        if not self.ctx:
            raise RuntimeError("llama.cpp does not load it")
        self.vocab = self.lib.llama_model_get_vocab(self.model)
        self.size = self.lib.llama_vocab_n_tokens(self.vocab)

    def tokens(self, text):
        room = (ctypes.c_int32 * 512)()
        raw = text.encode()
        return room[:self.lib.llama_tokenize(self.vocab, raw, len(raw), room, 512, True, False)]

    def piece(self, token):
        room = ctypes.create_string_buffer(64)
        n = self.lib.llama_token_to_piece(self.vocab, token, room, 64, 0, False)
        return room.raw[:n]

    def ends(self, token):
        """Whether a token ends a text, or is none of its text."""
        return self.lib.llama_vocab_is_eog(self.vocab, token) or self.lib.llama_vocab_is_control(self.vocab, token)

    def clear(self):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.ctx), True)

    def decode(self, ids):
        """Computes ids, which come after what came before, and the logits of the last one. Returns the seconds that it took."""
        array = (ctypes.c_int32 * len(ids))(*ids)  # which batch points to
        batch = self.lib.llama_batch_get_one(array, len(ids))
        begin = time.perf_counter()
        failed = self.lib.llama_decode(self.ctx, batch)
        self.lib.llama_synchronize(self.ctx)
        took = time.perf_counter() - begin
        assert not failed, f"llama_decode returns {failed}"
        return took

    def forget(self, stream):
        """Empties a stream's cache."""
        assert self.lib.llama_memory_seq_rm(self.lib.llama_get_memory(self.ctx), stream, -1, -1)

    def batch(self, work):
        """Computes tokens of several streams: (stream, position, tokens, whether the last one's logits are wanted). Returns the seconds, and the logits of each."""
        n, i32, at = sum(len(tokens) for _, _, tokens, _ in work), ctypes.c_int32, 0
        tokens, positions, counts, streams, wanted = (i32 * n)(), (i32 * n)(), (i32 * n)(*[1] * n), (ctypes.POINTER(i32) * n)(), (ctypes.c_int8 * n)()
        lasts = []
        for stream, position, ids, last in work:
            own = (i32 * 1)(stream)
            for i, token in enumerate(ids):
                tokens[at], positions[at], streams[at] = token, position + i, own
                at += 1
            wanted[at - 1] = last
            lasts.append(at - 1)
        address = lambda array: ctypes.cast(array, ctypes.c_void_p).value
        batch = Batch(n, tokens, (ctypes.c_void_p * 5)(None, *map(address, (positions, counts, streams, wanted))))
        begin = time.perf_counter()
        failed = self.lib.llama_decode(self.ctx, batch)
        self.lib.llama_synchronize(self.ctx)
        took = time.perf_counter() - begin
        assert not failed, f"llama_decode returns {failed}"
        return took, [self.lib.llama_get_logits_ith(self.ctx, i) if wanted[i] else None for i in lasts]

    def step(self, ids):
        """The likeliest token after ids."""
        self.decode(ids)
        return self.likeliest()

    def likeliest(self):
        """The likeliest token after what was computed. margin is how much larger its logit is than the second one's, as a part of it."""
        logits = self.lib.llama_get_logits_ith(self.ctx, -1)[:self.size]
        first, second = heapq.nlargest(2, logits)
        self.margin = (first - second) / abs(first)
        return logits.index(first)

    def close(self):
        self.lib.llama_free(self.ctx)
        self.lib.llama_model_free(self.model)


if __name__ == "__main__":
    try:
        print(folder())
    except SystemExit as e:
        print(e, file=sys.stderr)
        sys.exit(77)
