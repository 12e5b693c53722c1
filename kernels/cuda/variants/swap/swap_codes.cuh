// Codes as the 16 rows of a matrix instruction: keys for scores, dims of values for results.
#pragma once

#include "fragment.cuh"
#include "strip.cuh"

namespace fkv {

// In all of this g is lane/4 and t lane%4. Codes lie in a slot in lines of 128 bytes, one row of 8-bit codes or two of 4-bit ones,
// whose pieces of 16 bytes change places: piece p of line l lies at p ^ turn(l), so that what 8 lanes load at a time is in
// different banks. After them come the rows' words.
constexpr int SWAP_DIM = 128, SWAP_KEYS = 32;
constexpr int SWAP_ROWS = 8, SWAP_WARPS = 4; // rows of an item are columns of a matrix instruction

// Offsets in shared memory: queries, in rows of SWAP_STRIDE elements, and totals, one a row for each warp.
constexpr int SWAP_QUERIES = Lookout::bytes(SWAP_ROWS), SWAP_STRIDE = QUERY_STRIDE<SWAP_DIM>;
constexpr int SWAP_TOTALS = SWAP_QUERIES + SWAP_ROWS * SWAP_STRIDE * int(sizeof(half));

// transposed is an 8x8 matrix of 16-bit elements, as mma has one in b, transposed: lane (g, t) has (2t, g) and (2t+1, g)
// of what had (g, 2t) and (g, 2t+1).
#ifdef FKV_SIMT
inline uint32_t transposed(uint32_t x) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint32_t a = __shfl_sync(FULL, x, 2 * t * 4 + g / 2), b = __shfl_sync(FULL, x, (2 * t + 1) * 4 + g / 2);
    return (a >> g % 2 * 16 & 0xffff) | (b >> g % 2 * 16) << 16;
}
#else
__device__ inline uint32_t transposed(uint32_t x) {
    uint32_t r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(r) : "r"(x));
    return r;
}
#endif

// Steps is what a word of integers of 8 bits makes of a code: step * (code - middle) + least.
template <Code CODE> struct Steps {
    float step, least;

    __device__ explicit Steps(uint32_t word)
        : step(__uint_as_float(CODE == SIGNED ? word : word << 16)), least(CODE == SIGNED ? 0 : step * float((int(word) >> 16) + 128)) {}
};

// ByteKeys multiplies keys of 8-bit codes with the queries that it holds. What a row's word says is done with its scores.
template <Code CODE> struct ByteKeys {
    static constexpr int ROW = SWAP_DIM;

    uint32_t q[SWAP_DIM / 16][2];

    __device__ static int words_of(uint32_t) { return CODE == SIGNED || CODE == UNSIGNED; } // of a row
    __device__ static int turn(int line) { return line % 2 * 4; }

    __device__ ByteKeys(const half *queries, int lane) {
        const half *from = queries + lane / 4 * SWAP_STRIDE + lane % 4 * 16;
        float all = 0;
#pragma unroll
        for (int d = 0; d < SWAP_DIM / 16; d++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const half *two = from + d / 4 * 64 + d % 4 * 4 + i * 2;
                q[d][i] = *reinterpret_cast<const uint32_t *>(two);
                if (CODE == UNSIGNED) all += to_float(two[0]) + to_float(two[1]);
            }
        }
        if (CODE != UNSIGNED) return;
        all += __shfl_xor_sync(FULL, all, 1);
        all += __shfl_xor_sync(FULL, all, 2);
        if (lane % 4 == 0) totals()[lane / 4] = all;
        __syncwarp();
    }

    // totals are of the elements of rows, which all get a zero point's share: the loop has no registers for them.
    __device__ static float *totals() {
        FKV_SHARED(shared);
        return reinterpret_cast<float *>(shared + SWAP_TOTALS) + threadIdx.x / 32 * SWAP_ROWS;
    }

    __device__ void multiply(float (&s)[2][4], const unsigned char *slot, uint32_t, int lane) const {
        const int g = lane / 4;
#pragma unroll
        for (int chunk = 0; chunk < SWAP_DIM / 64; chunk++) {
            Run<uint32_t, 4> codes[2][2];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = i * 8 + g;
                codes[i / 2][i % 2] = *reinterpret_cast<const Run<uint32_t, 4> *>(slot + row * ROW + ((chunk * 4 + lane % 4) ^ turn(g)) * 16);
            }
#pragma unroll
            for (int w = 0; w < 4; w++) {
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    const uint32_t a = raw<CODE>(codes[k][0].at[w]), b = raw<CODE>(codes[k][1].at[w]);
                    const uint32_t f[4] = {elements<CODE, 0>(a), elements<CODE, 0>(b), elements<CODE, 1>(a), elements<CODE, 1>(b)};
                    mma(s[k], f, q[chunk * 4 + w][0], q[chunk * 4 + w][1], half());
                }
            }
        }
        if (CODE != SIGNED && CODE != UNSIGNED) return;
        const uint32_t *words = reinterpret_cast<const uint32_t *>(slot + SWAP_KEYS * ROW) + g;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const Steps<CODE> by(words[i * 8]);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float &score = s[i / 2][i % 2 * 2 + h];
                score = CODE == SIGNED ? score * by.step : score * by.step + totals()[lane % 4 * 2 + h] * by.least;
            }
        }
    }
};

// Gathered is what 8 rows have gathered of values: lane (g, t) has dims 16g+2n and the next of rows 2t and 2t+1 in o[n].
struct Gathered {
    float o[SWAP_DIM / 16][4];

    __device__ Gathered() {
#pragma unroll
        for (int n = 0; n < SWAP_DIM / 16; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) o[n][e] = 0;
        }
    }

    __device__ void shrink(float first, float second) {
#pragma unroll
        for (int n = 0; n < SWAP_DIM / 16; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) o[n][e] *= e % 2 ? second : first;
        }
    }

    // hold is what becomes of weights before their values are there.
    template <class Scores> __device__ static void hold(Scores &) {}

    // put writes row 2t+h.
    __device__ void put(float *row, int h, int lane) const {
#pragma unroll
        for (int n = 0; n < SWAP_DIM / 16; n += 2) {
            const float four[4] = {h ? o[n][1] : o[n][0], h ? o[n][3] : o[n][2], h ? o[n + 1][1] : o[n + 1][0], h ? o[n + 1][3] : o[n + 1][2]};
            store(row + lane / 4 * 16 + n * 2, four);
        }
    }
};

// ByteValues gathers values of 8-bit codes. What integers are worth more than codes goes to the weights, times a power of two
// that brings their largest step so far close to the end of halves' range; what zero points add is one number for all dims.
template <Code CODE> struct ByteValues : Gathered {
    static constexpr int ROW = SWAP_DIM;
    static constexpr bool STEPS = CODE == SIGNED || CODE == UNSIGNED;
    static constexpr float FIRST = 0x1p100f, HIGHEST = 0x1p15f;

    float unit = STEPS ? FIRST : 1; // of o, in one of weights times steps
    float rest[2] = {0, 0};

    __device__ static int words_of(uint32_t) { return STEPS; }
    __device__ static int turn(int line) { return line / 2 % 4 * 2; }

    __device__ void shrink(float first, float second) {
        Gathered::shrink(first, second);
        rest[0] *= first, rest[1] *= second;
    }

    __device__ void mix(float (&s)[2][4], const unsigned char *slot, uint32_t, int lane) {
        if (STEPS) weigh(s, reinterpret_cast<const uint32_t *>(slot + SWAP_KEYS * ROW) + lane / 4);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t p[2] = {transposed(pack<half>(s[k][0], s[k][1])), transposed(pack<half>(s[k][2], s[k][3]))};
            Run<uint32_t, 4> codes[4]; // of keys 2t, 2t+1, 2t+8, 2t+9
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = k * 16 + lane % 4 * 2 + i % 2 + i / 2 * 8;
                codes[i] = *reinterpret_cast<const Run<uint32_t, 4> *>(slot + row * ROW + (lane / 4 ^ lane % 4 * 2) * 16);
            }
#pragma unroll
            for (int w = 0; w < 4; w++) {
#pragma unroll
                for (int u = 0; u < 2; u++) { // dims of both keys of a pair
                    const uint32_t a = raw<CODE>(__byte_perm(codes[0].at[w], codes[1].at[w], u ? 0x7362 : 0x5140));
                    const uint32_t b = raw<CODE>(__byte_perm(codes[2].at[w], codes[3].at[w], u ? 0x7362 : 0x5140));
                    const uint32_t f[4] = {elements<CODE, 0>(a), elements<CODE, 1>(a), elements<CODE, 0>(b), elements<CODE, 1>(b)};
                    mma(o[w * 2 + u], f, p[0], p[1], half());
                }
            }
        }
    }

    // end makes o what it stands for.
    __device__ void end() {
        if (!STEPS) return;
        Gathered::shrink(1 / unit, 1 / unit);
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2) rest[h] += __shfl_xor_sync(FULL, rest[h], apart);
        }
#pragma unroll
        for (int n = 0; n < SWAP_DIM / 16; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) o[n][e] += rest[e % 2];
        }
    }

  private:
    __device__ void weigh(float (&s)[2][4], const uint32_t *words) {
        float largest = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) largest = fmaxf(largest, fabsf(Steps<CODE>(words[i * 8]).step));
        if (__any_sync(FULL, largest * unit > HIGHEST)) {
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2) largest = fmaxf(largest, __shfl_xor_sync(FULL, largest, apart));
            const uint32_t exponent = __float_as_uint(largest) >> 23;
            const float next = __uint_as_float(min(267 - exponent, 227u) << 23); // largest * next is in [2^13, 2^14)
            Gathered::shrink(next / unit, next / unit);
            unit = next;
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const Steps<CODE> by(words[i * 8]);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float &weight = s[i / 2][i % 2 * 2 + h];
                if (CODE == UNSIGNED) rest[h] += weight * by.least;
                weight *= by.step * unit;
            }
        }
    }
};

} // namespace fkv
