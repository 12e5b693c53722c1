#!/usr/bin/env python3
"""Times scaled_dot_product_attention of PyTorch on shapes of `make bench-cuda`, for the same page.

Prints lines like those of the Go benchmarks, one for each shape and library, which belong behind them in
build/results-cuda/cuda.txt; scripts/cuda-run does that where there is PyTorch. Keys and values are contiguous,
[batch, heads, tokens, dim] in bfloat16; calls take layers in turn, of 256 MiB together at least, so that none finds its own in a
cache. A figure is the median of 15 measurements of 32 calls that follow each other, by CUDA's events.
"""
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LIBRARIES = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
KV_HEADS, GROUP, DIM = 8, 4, 128
DECODE = [(1, 8192), (1, 32768), (8, 1024), (8, 2048), (8, 8192), (64, 2048), (64, 8192)]
CALLS, MEASUREMENTS = 32, 15


def measure(call, turns):
    """The times of a call, in seconds: each measurement fills the queue behind a wait, so that no launch is late."""
    for i in range(turns + 3):
        call(i)
    times = []
    for _ in range(MEASUREMENTS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(8_000_000)
        begin.record()
        for i in range(CALLS):
            call(i)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / CALLS / 1e3)
    return times


def report(library, what, batch, context, queries, act):
    layer = 2 * 2 * batch * context * KV_HEADS * DIM
    turns = -(-(256 << 20) // layer)
    keys, values = ([torch.randn(batch, KV_HEADS, context, DIM, device="cuda", dtype=act) for _ in range(turns)] for _ in range(2))
    q = torch.randn(batch, KV_HEADS * GROUP, queries, DIM, device="cuda", dtype=act)
    with sdpa_kernel(LIBRARIES[library]):
        times = measure(lambda i: F.scaled_dot_product_attention(q, keys[i % turns], values[i % turns], is_causal=queries > 1, enable_gqa=True), turns)
    low, median, high = (1e9 * t for t in statistics.quantiles(times, n=4))
    print(f"BenchmarkKernels/{what}-{library}/bf16/contiguous/group={GROUP}/batch={batch}/context={context}/queries={queries}"
          f" {len(times)} {median:.0f} ns/op {low:.0f} q1-ns {high:.0f} q3-ns {len(times)} runs", flush=True)


def main():
    torch.manual_seed(0)
    print(f"pytorch: {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    for library in LIBRARIES:
        for batch, context in DECODE:
            report(library, "decode", batch, context, 1, torch.bfloat16)
        report(library, "prefill", 1, 8192, 8192, torch.bfloat16)


if __name__ == "__main__":
    main()
