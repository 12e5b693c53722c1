// Asynchronous copies: not waited for, waited for one group too few, and misaligned.
#include "planted.h"

constexpr int STAGES = 2, CHUNKS = THREADS / 4; // of 16 bytes in a tile

// The last wait must cover the last group; the ones before leave the next tile under way.
template <bool WAIT, int PENDING, int SKEW> __device__ inline void ring(const float *in, float *out) {
    FKV_SHARED(memory);
    float *tile = reinterpret_cast<float *>(memory);
    int i = threadIdx.x;
    auto fetch = [&](int t) {
        if (i < CHUNKS && t < TILES)
            fkv::copy_async<16>(tile + t % STAGES * THREADS + 4 * i + SKEW, in + t * THREADS + 4 * i, true);
        fkv::copy_commit();
    };
    float sum = 0;
    fetch(0);
    for (int t = 0; t < TILES; t++) {
        fetch(t + 1);
        if (WAIT)
            fkv::copy_wait<PENDING>();
        __syncthreads();
        sum += tile[t % STAGES * THREADS + THREADS - 1 - i];
        __syncthreads();
    }
    out[blockIdx.x * THREADS + i] = sum;
}

template <bool BUG> __device__ inline void wait(const float *in, float *out) { ring<!BUG, 1, 0>(in, out); }
template <bool BUG> __device__ inline void count(const float *in, float *out) { ring<true, BUG ? 2 : 1, 0>(in, out); }
template <bool BUG> __device__ inline void misaligned(const float *in, float *out) { ring<true, 1, BUG ? 1 : 0>(in, out); }

constexpr unsigned RING = (STAGES * THREADS + 4) * sizeof(float);
PLANTED(wait, RING)
PLANTED(count, RING)
PLANTED(misaligned, RING)
