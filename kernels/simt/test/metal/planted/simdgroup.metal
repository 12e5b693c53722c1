// A simdgroup whose lanes are taken to run in lock step, by themselves and around matrices;
// lanes that are not there, and a wrong idea of what lane holds what of a matrix.
template <bool BUG> inline void lockstep(PARAMETERS) {
    const int mirror = i / 32 * 32 + 31 - i % 32;
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + THREADS - 1 - mirror];
        if (!BUG)
            simdgroup_barrier(mem_flags::mem_threadgroup);
        sum += tile[mirror];
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[i] = sum;
}

// The first simdgroup alone turns the tile around, as a matrix.
template <bool BARRIER, bool MAP> inline void matrices(PARAMETERS) {
    const int quad = i / 4;
    const int row = MAP ? (quad & 4) + i / 2 % 4 : i / 4, column = MAP ? (quad & 2) * 2 + i % 2 * 2 : i % 4 * 2;
    float sum[2] = {0, 0};
    if (i < 32)
        for (int t = 0; t < TILES; t++) {
            for (int j = i; j < THREADS; j += 32)
                tile[j] = in[t * THREADS + THREADS - 1 - j];
            if (BARRIER)
                simdgroup_barrier(mem_flags::mem_threadgroup);
            simdgroup_float8x8 m;
            simdgroup_load(m, tile, 8);
            sum[0] += m.thread_elements()[0];
            sum[1] += m.thread_elements()[1];
            simdgroup_barrier(mem_flags::mem_threadgroup);
        }
    if (i < 32) {
        out[row * 8 + column] = sum[0];
        out[row * 8 + column + 1] = sum[1];
    }
}

template <bool BUG> inline void matrix(PARAMETERS) { matrices<!BUG, true>(in, out, absent, tile, i); }
template <bool BUG> inline void map(PARAMETERS) { matrices<true, !BUG>(in, out, absent, tile, i); }

template <bool BUG> inline void lane(PARAMETERS) {
    float sum = 0;
    for (int t = 0; t < TILES; t++)
        sum += simd_shuffle(in[t * THREADS + (THREADS - 32 - i / 32 * 32) + i % 32], BUG ? 32 - i % 32 : 31 - i % 32);
    out[i] = sum;
}

PLANTED(lockstep, 0)
PLANTED(matrix, 0)
PLANTED(map, 0)
PLANTED(lane, 0)
