// One element too far: in global memory, in dynamic shared memory that ends where a page does
// and in some that does not, and in a static shared array.
#include "planted.h"

template <bool BUG> __device__ inline void global(const float *in, float *out) {
    int i = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < TILES; t++)
        sum += in[t * THREADS + THREADS - (BUG ? 0 : 1) - i];
    out[blockIdx.x * THREADS + i] = sum;
}

template <int TOO_FAR> __device__ inline void dynamic_tiles(const float *in, float *out) {
    FKV_SHARED(memory);
    float *tile = reinterpret_cast<float *>(memory);
    int i = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        if (TOO_FAR > 0 && i == THREADS - 1)
            tile[i + TOO_FAR] = 0;
        __syncthreads();
        sum += tile[THREADS - 1 - i];
        __syncthreads();
    }
    out[blockIdx.x * THREADS + i] = sum;
}

template <bool BUG> __device__ inline void dynamic(const float *in, float *out) { dynamic_tiles<BUG ? 1 : 0>(in, out); }
template <bool BUG> __device__ inline void slack(const float *in, float *out) { dynamic_tiles<BUG ? 2 : 0>(in, out); }

template <bool BUG> __device__ inline void fixed(const float *in, float *out) {
    __shared__ float tile[THREADS];
    int i = threadIdx.x;
    float sum = 0;
    for (int t = 0; t < TILES; t++) {
        tile[i] = in[t * THREADS + i];
        __syncthreads();
        sum += tile[THREADS - (BUG && t == TILES - 1 ? 0 : 1) - i];
        __syncthreads();
    }
    out[blockIdx.x * THREADS + i] = sum;
}

PLANTED(global, 0)
PLANTED(dynamic, THREADS * sizeof(float))
PLANTED(slack, (THREADS + 1) * sizeof(float))
PLANTED(fixed, 0)
