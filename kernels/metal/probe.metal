// Probes: what the device can do at most, for a benchmark to compare with. They
// use no cache.
#include <metal_simdgroup_matrix>

#include "kernel.h"

namespace {

constant constexpr uint MMA_THREADS = 128;
constant constexpr int PRODUCTS = 8; // that do not depend on each other, a simdgroup

} // namespace

// Grid: x over the threadgroups that the device runs at once. They do iterations * 4 * 8
// products each, with all operands in registers. A product of 8x8 by 8x8 is 1024
// floating point operations.
[[max_total_threads_per_threadgroup(MMA_THREADS)]] kernel void
fkv_probe_mma_f16(device float *out [[buffer(FKV_PROBE_MMA_OUT)]],
                  constant fkv_probe_mma_args &args [[buffer(FKV_PROBE_MMA_BUFFERS)]],
                  FKV_BUILTINS) {
    const fkv::Here here = FKV_HERE;
    simdgroup_matrix<half, 8, 8> small = make_filled_simdgroup_matrix<half, 8, 8>(half(0.5f));
    small.thread_elements()[0] = static_cast<half>(0.001f * here.index); // nothing that a compiler can compute
    simdgroup_matrix<float, 8, 8> sums[PRODUCTS];
#pragma unroll
    for (int p = 0; p < PRODUCTS; p++) {
        sums[p] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }
    for (uint32_t i = 0; i < args.iterations; i++) {
#pragma unroll
        for (int p = 0; p < PRODUCTS; p++) {
            simdgroup_multiply_accumulate(sums[p], small, small, sums[p]);
        }
    }
    float sum = 0; // of all, so that no product is idle
#pragma unroll
    for (int p = 0; p < PRODUCTS; p++) {
        sum += sums[p].thread_elements()[0] + sums[p].thread_elements()[1];
    }
    if (here.group.x == 0 && here.index == 0) {
        *out = sum;
    }
}

namespace {

constant constexpr uint READ_THREADS = 256, READ_SIMDGROUPS = READ_THREADS / fkv::LANES;
constant constexpr int HELD = 4; // loads that a thread has on their way

} // namespace

// Grid: x over the words, 16 a thread at a time; as many threadgroups as the device runs
// at once read fastest, any grid is right. SRC is aligned to 16 bytes.
[[max_total_threads_per_threadgroup(READ_THREADS)]] kernel void
fkv_probe_read(const device uint4 *src [[buffer(FKV_PROBE_READ_SRC)]],
               device atomic_uint *out [[buffer(FKV_PROBE_READ_OUT)]],
               constant fkv_probe_read_args &args [[buffer(FKV_PROBE_READ_BUFFERS)]],
               FKV_BUILTINS) {
    threadgroup uint of_simdgroup[READ_SIMDGROUPS];
    const fkv::Here here = FKV_HERE;
    const int64_t runs = args.bytes / 16, step = static_cast<int64_t>(here.groups.x) * READ_THREADS;
    uint4 sums = uint4(0);
    const int64_t index = static_cast<int64_t>(here.group.x) * READ_THREADS + here.index;
    for (int64_t first = index; first < runs; first += HELD * step) {
        uint4 held[HELD];
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            held[i] = first + i * step < runs ? src[first + i * step] : uint4(0);
        }
#pragma unroll
        for (int i = 0; i < HELD; i++) {
            sums += held[i];
        }
    }
    // One addition to memory a threadgroup: they all go to the same word.
    const uint sum = simd_sum(sums.x + sums.y + sums.z + sums.w);
    if (here.lane == 0) {
        of_simdgroup[here.simdgroup] = sum;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (here.index == 0) {
        uint total = 0;
        for (uint i = 0; i < READ_SIMDGROUPS; i++) {
            total += of_simdgroup[i];
        }
        atomic_fetch_add_explicit(out, total, memory_order_relaxed);
    }
}
