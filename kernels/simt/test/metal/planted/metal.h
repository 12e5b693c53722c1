// Kernels with one bug each, and their correct twins, for tests of the detectors. As those of
// planted.h, each computes: out[group*THREADS + i] is the sum over tiles of
// in[tile*THREADS + THREADS-1-i], so that every thread needs what another one loaded.
#include <metal_stdlib>

using namespace metal;

constant constexpr int THREADS = 64, TILES = 4;

constant bool never [[function_constant(0)]];

// PLANTED defines the kernels bug_name and fix_name from a template name<bool BUG>. Both have
// one float of threadgroup memory more than a tile, if SPARE says so.
#define PLANTED(name, SPARE)             \
    PLANTED_KERNEL(bug_##name, name<true>, SPARE) \
    PLANTED_KERNEL(fix_##name, name<false>, SPARE)

#define PLANTED_KERNEL(name, body, SPARE)                                                                     \
    [[max_total_threads_per_threadgroup(64)]] kernel void name(                                               \
        const device float *in [[buffer(0)]], device float *out [[buffer(1)]],                                \
        const device float *absent [[buffer(2), function_constant(never)]],                                   \
        uint3 group [[threadgroup_position_in_grid]], uint i [[thread_index_in_threadgroup]]) {               \
        threadgroup float tile[THREADS + SPARE];                                                              \
        body(in, out + group.x * THREADS, absent, tile, int(i));                                              \
    }

#define PARAMETERS                                                                                            \
    const device float *in, device float *out, const device float *absent, threadgroup float *tile, int i
