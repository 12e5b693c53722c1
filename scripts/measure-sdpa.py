#!/usr/bin/env python3
"""Times scaled_dot_product_attention of PyTorch on shapes of `make bench-cuda`, for the same page.

Prints lines like those of the Go benchmarks, one for each shape and library, which belong after them in
build/results-cuda/cuda.txt; scripts/run-cuda does that where there is PyTorch. Keys and values are contiguous,
[batch, heads, tokens, dim] in bfloat16; calls take layers in turn, of 256 MiB together at least, so that none finds its own in a
cache. A figure is the median of 15 measurements of calls that follow each other, 20 ms of them and 4 to 32, by CUDA's events.
"""
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LIBRARIES = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
KV_HEADS, DIM = 8, 128
DECODE = [(4, 1, 8192), (4, 1, 32768), (4, 8, 1024), (4, 8, 2048), (4, 8, 8192), (4, 64, 2048), (4, 64, 8192), (8, 8, 8192), (8, 64, 2048)]
PREFILL = [(4, 8192), (4, 32768), (8, 8192)]
MEASUREMENTS = 15


def measure(call, turns):
    """The times of a call, in seconds."""
    for i in range(turns + 3):
        call(i)
    calls = min(32, max(4, int(20e-3 / seconds(call, 4))))
    return [seconds(call, calls) for _ in range(MEASUREMENTS)]


def seconds(call, calls):
    """The mean time of a call: the queue is filled while the device waits, so that no launch is late."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(8_000_000)
    begin.record()
    for i in range(calls):
        call(i)
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls / 1e3


def report(library, what, group, batch, context, queries, act):
    layer = 2 * 2 * batch * context * KV_HEADS * DIM
    turns = -(-(256 << 20) // layer)
    keys, values = ([torch.randn(batch, KV_HEADS, context, DIM, device="cuda", dtype=act) for _ in range(turns)] for _ in range(2))
    q = torch.randn(batch, KV_HEADS * group, queries, DIM, device="cuda", dtype=act)
    with sdpa_kernel(LIBRARIES[library]):
        times = measure(lambda i: F.scaled_dot_product_attention(q, keys[i % turns], values[i % turns], is_causal=queries > 1, enable_gqa=True), turns)
    low, median, high = (1e9 * t for t in statistics.quantiles(times, n=4))
    print(f"BenchmarkKernels/{what}-{library}/bf16/contiguous/group={group}/batch={batch}/context={context}/queries={queries}"
          f" {len(times)} {median:.0f} ns/op {low:.0f} q1-ns {high:.0f} q3-ns {len(times)} runs", flush=True)


def main():
    torch.manual_seed(0)
    print(f"pytorch: {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    for library in LIBRARIES:
        for group, batch, context in DECODE:
            report(library, "decode", group, batch, context, 1, torch.bfloat16)
        for group, context in PREFILL:
            report(library, "prefill", group, 1, context, context, torch.bfloat16)


if __name__ == "__main__":
    main()
