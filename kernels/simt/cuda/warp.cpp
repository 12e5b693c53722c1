#include "warp.h"

#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace simt {

namespace {

float widen(__half h) { return __half2float(h); }
float widen(__nv_bfloat16 b) { return __bfloat162float(b); }

// multiply is d += a b for matrices of 16x16 and 16x8, whose elements lie on the lanes as
// kernels/cuda/ptx.cuh says. The products are exact and so, nearly always, is their sum:
// the device promises no order, and this has none.
template <class T> void multiply(void *const *lanes) {
    float a[16][16], b[16][8];
    for (unsigned l = 0; l < WARP; l++) {
        const auto &p = *static_cast<const Product *>(lanes[l]);
        T pair[2];
        unsigned g = l / 4, t = l % 4;
        for (unsigned i = 0; i < 4; i++) {
            std::memcpy(pair, &p.a[i], sizeof pair);
            for (unsigned j = 0; j < 2; j++)
                a[g + i % 2 * 8][2 * t + i / 2 * 8 + j] = widen(pair[j]);
        }
        for (unsigned i = 0; i < 2; i++) {
            std::memcpy(pair, &p.b[i], sizeof pair);
            for (unsigned j = 0; j < 2; j++)
                b[2 * t + i * 8 + j][g] = widen(pair[j]);
        }
    }
    for (unsigned row = 0; row < 16; row++) {
        double sum[8] = {};
        for (unsigned k = 0; k < 16; k++)
            for (unsigned column = 0; column < 8; column++)
                sum[column] += double(a[row][k]) * double(b[k][column]);
        for (unsigned column = 0; column < 8; column++) {
            auto &p = *static_cast<Product *>(lanes[row % 8 * 4 + column / 2]);
            float &d = p.d[row / 8 * 2 + column % 2];
            d = static_cast<float>(d + sum[column]);
        }
    }
}

// spread gives lane l the elements (l/4, 2*(l%4)) and the next one of four 8x8 matrices,
// whose row r of matrix m lane 8*m+r brought.
template <bool TRANSPOSED> void spread(void *const *lanes) {
    uint16_t matrix[4][8][8];
    for (unsigned l = 0; l < WARP; l++)
        std::memcpy(matrix[l / 8][l % 8], static_cast<const Matrices *>(lanes[l])->row, sizeof matrix[0][0]);
    for (unsigned l = 0; l < WARP; l++) {
        auto &m = *static_cast<Matrices *>(lanes[l]);
        unsigned row = l / 4, column = l % 4 * 2;
        for (unsigned i = 0; i < 4; i++) {
            uint32_t low = TRANSPOSED ? matrix[i][column][row] : matrix[i][row][column];
            uint32_t high = TRANSPOSED ? matrix[i][column + 1][row] : matrix[i][row][column + 1];
            m.result[i] = low | high << 16;
        }
    }
}

} // namespace

// All values are read before the first is replaced: a lane brings and gets in the same place.
void shuffle(void *const *lanes, unsigned mask) {
    uint64_t values[WARP];
    for (unsigned l = 0; l < WARP; l++)
        if (mask >> l & 1)
            values[l] = static_cast<const Shuffle *>(lanes[l])->value;
    for (unsigned l = 0; l < WARP; l++)
        if (mask >> l & 1) {
            auto &s = *static_cast<Shuffle *>(lanes[l]);
            s.found = mask >> s.from & 1;
            if (s.found)
                s.value = values[s.from];
        }
}

void vote(void *const *lanes, unsigned mask) {
    unsigned result = 0;
    for (unsigned l = 0; l < WARP; l++)
        if (mask >> l & 1 && static_cast<const Vote *>(lanes[l])->yes)
            result |= 1u << l;
    for (unsigned l = 0; l < WARP; l++)
        if (mask >> l & 1)
            static_cast<Vote *>(lanes[l])->result = result;
}

void distribute(void *const *lanes, unsigned) { spread<false>(lanes); }
void distribute_transposed(void *const *lanes, unsigned) { spread<true>(lanes); }
void multiply_f16(void *const *lanes, unsigned) { multiply<__half>(lanes); }
void multiply_bf16(void *const *lanes, unsigned) { multiply<__nv_bfloat16>(lanes); }

} // namespace simt
