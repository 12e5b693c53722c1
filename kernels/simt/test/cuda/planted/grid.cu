// Two blocks that write the same word, if with the same value.
#include "planted.h"

template <bool BUG> __device__ inline void overlap(const float *in, float *out) {
    int i = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < TILES; t++)
        sum += in[t * THREADS + THREADS - 1 - i];
    out[blockIdx.x * THREADS + i] = sum;
    if (BUG && i == THREADS - 1)
        out[0] = in[THREADS - 1] + in[2 * THREADS - 1] + in[3 * THREADS - 1] + in[4 * THREADS - 1];
}

PLANTED(overlap, 0)
