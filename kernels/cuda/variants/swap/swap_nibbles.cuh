// Codes of 4 bits as the 16 rows of a matrix instruction.
#pragma once

#include "swap_codes.cuh"

namespace fkv {

// NibbleKeys is ByteKeys of such codes: lane (g, t) has dims [32t, 32t+32) of its keys, of a word codes 0 and 4, 1 and 5 as
// a step, 2 and 6, 3 and 7 as the next.
struct NibbleKeys {
    static constexpr int ROW = SWAP_DIM / 2;

    uint32_t q[SWAP_DIM / 16][2];

    __device__ static int words_of(uint32_t storage) { return Storage{storage}.words(SWAP_DIM); }
    __device__ static int turn(int) { return 0; }

    __device__ NibbleKeys(const half *queries, int lane) {
#pragma unroll
        for (int d = 0; d < SWAP_DIM / 16; d++) {
            const uint32_t *low = reinterpret_cast<const uint32_t *>(queries + lane / 4 * SWAP_STRIDE + lane % 4 * 32 + d / 2 * 8 + d % 2 * 2);
            q[d][0] = __byte_perm(low[0], low[2], 0x5410), q[d][1] = __byte_perm(low[0], low[2], 0x7632);
        }
    }

    __device__ void multiply(float (&s)[2][4], const unsigned char *slot, uint32_t storage, int lane) const {
        const int own = words_of(storage);
        const uint32_t *words = reinterpret_cast<const uint32_t *>(slot + SWAP_KEYS * ROW) + lane / 4 * own + lane % 4 * own / 4;
        bool tiny = false;
#pragma unroll
        for (int i = 0; i < 4; i++) tiny = tiny || Affine<FKV_NIBBLES, true>::tiny(words[i * 8 * own]);
        if (__any_sync(FULL, tiny)) {
            multiply<true>(s, slot, words, own, lane);
        } else {
            multiply<false>(s, slot, words, own, lane);
        }
    }

  private:
    template <bool TINY> __device__ void multiply(float (&s)[2][4], const unsigned char *slot, const uint32_t *words, int own, int lane) const {
        const unsigned char *mine = slot + lane * 16;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t first = words[k * 16 * own], second = words[(k * 16 + 8) * own];
            const Affine<FKV_NIBBLES, TINY> by[2] = {{first, first}, {second, second}};
            const Run<uint32_t, 4> a = *reinterpret_cast<const Run<uint32_t, 4> *>(mine + k * 16 * ROW);
            const Run<uint32_t, 4> b = *reinterpret_cast<const Run<uint32_t, 4> *>(mine + (k * 16 + 8) * ROW);
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const uint32_t low[4] = {element<0, TINY>(a.at[w], by[0]), element<0, TINY>(b.at[w], by[1]),
                                         element<1, TINY>(a.at[w], by[0]), element<1, TINY>(b.at[w], by[1])};
                mma(s[k], low, q[2 * w][0], q[2 * w][1], half());
                const uint32_t high[4] = {element<2, TINY>(a.at[w], by[0]), element<2, TINY>(b.at[w], by[1]),
                                          element<3, TINY>(a.at[w], by[0]), element<3, TINY>(b.at[w], by[1])};
                mma(s[k], high, q[2 * w + 1][0], q[2 * w + 1][1], half());
            }
        }
    }
};

// NibbleValues is ByteValues of such codes, which are made elements: a word is of a part of the dims.
struct NibbleValues : Gathered {
    static constexpr int ROW = SWAP_DIM / 2;

    __device__ static int words_of(uint32_t storage) { return Storage{storage}.words(SWAP_DIM); }
    __device__ static int turn(int line) { return line % 4 * 2; }

    __device__ void mix(float (&s)[2][4], const unsigned char *slot, uint32_t storage, int lane) {
        const int own = words_of(storage);
        const int g = lane / 4, t = lane % 4;
        const uint32_t *words = reinterpret_cast<const uint32_t *>(slot + SWAP_KEYS * ROW) + t * 2 * own + g * own / 8;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t *of = words + k * 16 * own;
            const uint32_t word[4] = {of[0], of[own], of[8 * own], of[9 * own]};
            const uint32_t p[2] = {transposed(pack<half>(s[k][0], s[k][1])), transposed(pack<half>(s[k][2], s[k][3]))};
            bool tiny = false;
#pragma unroll
            for (int i = 0; i < 4; i++) tiny = tiny || Affine<FKV_NIBBLES, true>::tiny(word[i]);
            const unsigned char *mine = slot + (k * 8 + t) * 128 + g % 2 * 8;
            if (__any_sync(FULL, tiny)) {
                mix<true>(p, mine, word, lane);
            } else {
                mix<false>(p, mine, word, lane);
            }
        }
    }

    __device__ void end() {}

  private:
    // mix is of 16 keys, of which mine is this lane's first line.
    template <bool TINY> __device__ void mix(const uint32_t (&p)[2], const unsigned char *mine, const uint32_t (&word)[4], int lane) {
        const Affine<FKV_NIBBLES, TINY> by[2] = {{word[0], word[1]}, {word[2], word[3]}};
        Run<uint32_t, 2> codes[4]; // of keys 2t, 2t+1, 2t+8, 2t+9
#pragma unroll
        for (int i = 0; i < 4; i++) {
            codes[i] = *reinterpret_cast<const Run<uint32_t, 2> *>(mine + i / 2 * 4 * 128 + ((i % 2 * 4 + lane / 8) ^ lane % 4 * 2) * 16);
        }
#pragma unroll
        for (int w = 0; w < 2; w++) {
#pragma unroll
            for (int upper = 0; upper < 2; upper++) { // dims of both keys of a pair
                const uint32_t a = __byte_perm(codes[0].at[w], codes[1].at[w], upper ? 0x7632 : 0x5410);
                const uint32_t b = __byte_perm(codes[2].at[w], codes[3].at[w], upper ? 0x7632 : 0x5410);
                const uint32_t low[4] = {element<0, TINY>(a, by[0]), element<1, TINY>(a, by[0]), element<0, TINY>(b, by[1]), element<1, TINY>(b, by[1])};
                mma(o[w * 4 + upper * 2], low, p[0], p[1], half());
                const uint32_t high[4] = {element<2, TINY>(a, by[0]), element<3, TINY>(a, by[0]), element<2, TINY>(b, by[1]), element<3, TINY>(b, by[1])};
                mma(o[w * 4 + upper * 2 + 1], high, p[0], p[1], half());
            }
        }
    }
};

} // namespace fkv
