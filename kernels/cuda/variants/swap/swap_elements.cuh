// Elements as the 16 rows of a matrix instruction: for codes that have become such, 16 keys at a time.
#pragma once

#include "swap_codes.cuh"

namespace fkv {

// ElementKeys leaves queries where they are: the loop has no registers for them.
struct ElementKeys {
    __device__ ElementKeys(const half *, int) {}

    __device__ void multiply(float (&s)[1][4], const half *keys, uint32_t, int lane) const {
        FKV_SHARED(shared);
        const half *queries = reinterpret_cast<const half *>(shared + SWAP_QUERIES) + lane / 4 * SWAP_STRIDE + lane % 4 * 2;
#pragma unroll
        for (int d = 0; d < SWAP_DIM / 16; d++) {
            uint32_t f[4];
            load_matrices(f, keys + Rows<SWAP_DIM, true>::at<8>(lane % 16, d * 2 + lane / 16));
            const uint32_t *q = reinterpret_cast<const uint32_t *>(queries + d * 16);
            mma(s[0], f, q[0], q[4], half());
        }
    }
};

struct ElementValues : Gathered { // but o[n] has dims 16n+g and 16n+8+g
    // hold rounds weights: two registers for four, while values become elements.
    __device__ static void hold(float (&s)[1][4]) {
        s[0][0] = __uint_as_float(transposed(pack<half>(s[0][0], s[0][1]))), s[0][1] = __uint_as_float(transposed(pack<half>(s[0][2], s[0][3])));
    }

    __device__ void mix(float (&s)[1][4], const half *values, uint32_t, int lane) {
        const uint32_t p[2] = {__float_as_uint(s[0][0]), __float_as_uint(s[0][1])};
#pragma unroll
        for (int n = 0; n < SWAP_DIM / 16; n++) {
            uint32_t f[4];
            load_transposed(f, values + Rows<SWAP_DIM, true>::at<8>(lane % 8 + lane / 16 * 8, n * 2 + lane / 8 % 2));
            mma(o[n], f, p[0], p[1], half());
        }
    }

    __device__ void end() {}

    __device__ void put(float *row, int h, int lane) const {
#pragma unroll
        for (int n = 0; n < SWAP_DIM / 16; n++) {
            row[n * 16 + lane / 4] = h ? o[n][1] : o[n][0], row[n * 16 + 8 + lane / 4] = h ? o[n][3] : o[n][2];
        }
    }
};

} // namespace fkv
