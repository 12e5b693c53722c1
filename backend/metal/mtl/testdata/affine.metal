// The tests' kernel: out[i] = out[i] * factor + add, times two where constant 0 says so, plus
// more[i] where constant 1 does. Launches in another order give another result.
#include <metal_stdlib>
using namespace metal;

constant bool twice [[function_constant(0)]];
constant bool with_more [[function_constant(1)]];

struct affine_args {
    uint count, factor, add, pad;
};

[[max_total_threads_per_threadgroup(64)]] kernel void affine(
    device uint *out [[buffer(0)]],
    const device uint *more [[buffer(1), function_constant(with_more)]],
    constant affine_args &args [[buffer(2)]],
    uint3 group [[threadgroup_position_in_grid]],
    uint thread_index [[thread_index_in_threadgroup]]) {
    threadgroup uint shared[64];
    uint i = group.x * 64 + thread_index;
    shared[thread_index] = i < args.count && with_more ? more[i] : 0;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (i >= args.count) return;
    uint value = out[i] * args.factor + args.add;
    out[i] = (twice ? value * 2 : value) + shared[thread_index];
}
