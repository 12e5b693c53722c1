// Values are exchanged through device memory and then through threadgroup memory, with a barrier
// that orders the wrong one. FERRUM_SIMT_RACES, which the end of a kernel's name gives, says
// which memory the race check is to look at.
template <bool DEVICE, bool THREADGROUP> inline void exchange(PARAMETERS) {
    const int mirror = THREADS - 1 - i;
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        out[i] = in[t * THREADS + mirror];
        threadgroup_barrier(DEVICE ? mem_flags::mem_device : mem_flags::mem_threadgroup);
        tile[i] = out[mirror];
        threadgroup_barrier(THREADGROUP ? mem_flags::mem_threadgroup : mem_flags::mem_device);
        sum += tile[mirror];
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    }
    out[i] = sum;
}

template <bool BUG> inline void flags_device(PARAMETERS) { exchange<!BUG, true>(in, out, absent, tile, i); }
template <bool BUG> inline void flags_threadgroup(PARAMETERS) { exchange<true, !BUG>(in, out, absent, tile, i); }

PLANTED(flags_device, 0)
PLANTED(flags_threadgroup, 0)
