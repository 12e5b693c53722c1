// Threads that do not come to the same barrier: in the branches of a condition, and because
// some have returned.
#include "planted.h"

template <bool BUG> __device__ inline void branch(const float *in, float *out) {
    __shared__ float tile[THREADS];
    int i = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        if (BUG && i < 32)
            __syncthreads();
        else
            __syncthreads();
        sum += tile[THREADS - 1 - i];
        __syncthreads();
    }
    out[blockIdx.x * THREADS + i] = sum;
}

template <bool BUG> __device__ inline void early(const float *in, float *out) {
    __shared__ float tile[THREADS];
    int i = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        if (BUG && t == 1 && i == THREADS - 1)
            return;
        __syncthreads();
        sum += tile[THREADS - 1 - i];
        __syncthreads();
    }
    out[blockIdx.x * THREADS + i] = sum;
}

PLANTED(branch, 0)
PLANTED(early, 0)
