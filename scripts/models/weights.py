"""The weights of tiny models: uniform numbers that any language can make again.

Element i of a tensor is float32(center + spread * (2u - 1)), computed in float64, where u is the upper 24 bits of
output i of splitmix64, whose state begins with the 64-bit FNV-1a of the tensor's name, over 2^24. Of tensors of bytes it
is that number without its fraction, and of F8_E4M3 one less where that is no number (0x7f and 0xff).
"""
import math

import numpy as np

MASK = (1 << 64) - 1


def fnv1a(name):
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 & MASK
    return h


def uniform(name, n):
    with np.errstate(over="ignore"):
        z = np.uint64(fnv1a(name)) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 2**24


def values(name, shape, center, spread, kind="F32"):
    v = center + spread * (2 * uniform(name, math.prod(shape)) - 1)
    if kind != "F32":
        v = v.astype(np.uint8).reshape(shape)
        return v - ((v & 0x7F == 0x7F) & (kind == "F8_E4M3"))
    return v.astype(np.float32).astype(np.float64).reshape(shape)


def tokens(seed, n, vocab, bos):
    """A text of bytes after BOS."""
    return [bos] + [int(u * vocab) for u in uniform(seed, n - 1)]


class Shapes:
    """The tensors of a model: name, shape, center and spread, and the type where that is not F32.

    With a block, which is rows and columns, matrices but for those of routers are in F8_E4M3, with scales beside them.
    """

    def __init__(self, block=None):
        self.all, self.prefix, self.block = [], "", block

    def add(self, name, *shape, center=0.0, spread=None, inputs=None, kind=None):
        if spread is None:  # the outputs of a matrix are as large as its inputs
            spread = round(math.sqrt(3 / (inputs or shape[-1])), 6)
        self.all.append([self.prefix + name, list(shape), center, spread] + ([kind] if kind else []))

    def norm(self, name, n, unit=0):
        self.add(name + ".weight", n, center=1.0 - unit, spread=0.5)

    def linear(self, name, rows, cols, bias=False, gain=1.0, plain=False):
        if self.block and not plain:
            self.add(name + ".weight", rows, cols, center=128, spread=128, kind="F8_E4M3")
            scale = round(gain / math.sqrt(cols) / 100, 6)  # the root of the mean square of all numbers of 8 bits
            self.add(name + ".weight_scale_inv", -(-rows // self.block[0]), -(-cols // self.block[1]), center=scale, spread=scale / 2)
        else:
            self.add(name + ".weight", rows, cols, spread=round(gain * math.sqrt(3 / cols), 6))
        if bias:
            self.add(name + ".bias", rows, spread=0.5)

    def gated_block(self, name, dim, hidden, parts=("gate_proj", "up_proj", "down_proj")):
        self.linear(name + parts[0], hidden, dim)
        self.linear(name + parts[1], hidden, dim)
        self.linear(name + parts[2], dim, hidden)

    def exponents(self, name, experts, rows, cols, exponent):
        """Experts in MXFP4; exponents are from one less to one more."""
        self.add(name + "_blocks", experts, rows, cols // 32, 16, center=128, spread=128, kind="U8")
        self.add(name + "_scales", experts, rows, cols // 32, center=127.5 + exponent, spread=1.5, kind="U8")
