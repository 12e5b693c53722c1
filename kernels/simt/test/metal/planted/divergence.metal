// Threads that do not come to the same barrier: in the branches of a condition, and because
// some have returned.
template <bool BUG> inline void branch(PARAMETERS) {
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        if (BUG && i < 32)
            threadgroup_barrier(mem_flags::mem_threadgroup);
        else
            threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += tile[THREADS - 1 - i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[i] = sum;
}

template <bool BUG> inline void early(PARAMETERS) {
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        if (BUG && t == 1 && i == THREADS - 1)
            return;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += tile[THREADS - 1 - i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[i] = sum;
}

PLANTED(branch, 0)
PLANTED(early, 0)
