// Barriers that are missing: after a load, and before its memory is used again.
template <bool AFTER_LOAD, bool AT_END> inline void tiles(PARAMETERS) {
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        if (AFTER_LOAD)
            threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += tile[THREADS - 1 - i];
        if (AT_END)
            threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[i] = sum;
}

template <bool BUG> inline void load(PARAMETERS) { tiles<!BUG, true>(in, out, absent, tile, i); }
template <bool BUG> inline void reuse(PARAMETERS) { tiles<true, !BUG>(in, out, absent, tile, i); }

PLANTED(load, 0)
PLANTED(reuse, 0)
