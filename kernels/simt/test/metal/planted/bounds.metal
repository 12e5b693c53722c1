// One element too far: in device memory, in threadgroup memory that ends where a page does and
// in some that does not, by an array's own name, and in a buffer that a function constant leaves out.
template <bool BUG> inline void buffer(PARAMETERS) {
    float sum = 0;
    for (int t = 0; t < TILES; t++)
        sum += in[t * THREADS + THREADS - (BUG ? 0 : 1) - i];
    out[i] = sum;
}

template <int TOO_FAR> inline void tiles(PARAMETERS) {
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        if (TOO_FAR > 0 && i == THREADS - 1)
            tile[i + TOO_FAR] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += tile[THREADS - 1 - i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[i] = sum;
}

template <bool BUG> inline void page(PARAMETERS) { tiles<BUG ? 1 : 0>(in, out, absent, tile, i); }
template <bool BUG> inline void slack(PARAMETERS) { tiles<BUG ? 2 : 0>(in, out, absent, tile, i); }

template <bool BUG>
inline void sized(const device float *in, device float *out, const device float *, threadgroup float (&tile)[THREADS], int i) {
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += tile[THREADS - (BUG && t == TILES - 1 ? 0 : 1) - i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }
    out[i] = sum;
}

template <bool BUG> inline void missing(PARAMETERS) {
    float sum = 0;
    for (int t = 0; t < TILES; t++)
        sum += in[t * THREADS + THREADS - 1 - i];
    out[i] = sum + (BUG || never ? absent[i] : 0);
}

PLANTED(buffer, 0)
PLANTED(page, 0)
PLANTED(slack, 1)
PLANTED(sized, 0)
PLANTED(missing, 0)
