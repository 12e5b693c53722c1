// Two threadgroups that write the same word, if with the same value.
#define OVERLAP(name, BUG)                                                                                    \
    [[max_total_threads_per_threadgroup(64)]] kernel void name(                                               \
        const device float *in [[buffer(0)]], device float *out [[buffer(1)]],                                \
        const device float *absent [[buffer(2), function_constant(never)]],                                   \
        uint3 group [[threadgroup_position_in_grid]], uint i [[thread_index_in_threadgroup]]) {               \
        float sum = 0;                                                                                        \
        for (int t = 0; t < TILES; t++)                                                                       \
            sum += in[t * THREADS + THREADS - 1 - i];                                                         \
        out[group.x * THREADS + i] = sum;                                                                     \
        if (BUG && i == 0)                                                                                    \
            out[0] = sum;                                                                                     \
    }

OVERLAP(bug_overlap, true)
OVERLAP(fix_overlap, false)
