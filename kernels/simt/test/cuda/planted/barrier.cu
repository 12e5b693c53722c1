// Barriers that are missing: after a load, and before its memory is used again.
#include "planted.h"

template <bool AFTER_LOAD, bool AT_END> __device__ inline void tiles(const float *in, float *out) {
    __shared__ float tile[THREADS];
    int i = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        if (AFTER_LOAD)
            __syncthreads();
        sum += tile[THREADS - 1 - i];
        if (AT_END)
            __syncthreads();
    }
    out[blockIdx.x * THREADS + i] = sum;
}

template <bool BUG> __device__ inline void load(const float *in, float *out) { tiles<!BUG, true>(in, out); }
template <bool BUG> __device__ inline void reuse(const float *in, float *out) { tiles<true, !BUG>(in, out); }

PLANTED(load, 0)
PLANTED(reuse, 0)
