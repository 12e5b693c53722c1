// A warp whose lanes are taken to run in lock step.
#include "planted.h"

template <bool BUG> __device__ inline void lockstep(const float *in, float *out) {
    __shared__ float tile[THREADS];
    int i = threadIdx.x, mirror = i / 32 * 32 + 31 - i % 32;
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + THREADS - 1 - mirror];
        if (!BUG)
            __syncwarp();
        sum += tile[mirror];
        __syncwarp();
    }
    out[blockIdx.x * THREADS + i] = sum;
}

PLANTED(lockstep, 0)
