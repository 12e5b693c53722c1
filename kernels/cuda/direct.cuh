// Attention on tensor cores with 8-bit codes as they lie in a ring: each lane makes, of the codes that it has
// loaded, the fragments that it multiplies.
#pragma once

#include "strip.cuh"

namespace fkv {

// Direct is a Strip for such codes. Where elements of a tile would be written to shared memory, and read again as
// fragments, lanes take codes that lie together and it is the order of dims that suits them: queries are read
// in the same one, and what values add up to is put back into place at the end. With g = lane/4 and t = lane%4, and
// for every 64 dims of keys, lane (g, t) has dims [16t, 16t+16) of key g, four of them a step; for every 64 or
// 128 of values, dims 8g or 16g and on of its four keys, one of them a fragment.
//
// The scale of a row of int8 is not for its elements: scores are multiplied with it, or pairs of values.
template <int KDIM, int VDIM, int KEYS> struct Direct : Weights<half, VDIM, KEYS, VDIM> {
    using Base = Weights<half, VDIM, KEYS, VDIM>;
    static constexpr bool FITS = KDIM % 64 == 0 && VDIM % 64 == 0, HELD = KDIM <= 128;
    static constexpr int STEPS = KDIM / 16;
    static constexpr int RUN = VDIM % 128 == 0 ? 16 : 8; // dims of a lane that lie together
    static constexpr uint32_t MAGIC = 0x64646464, LESS = 0xe480e480; // 1024 with a code in its last bits, and -1152

    const half *rows; // of queries: this lane's part
    int stride;
    uint32_t held[HELD ? STEPS : 1][4];

    // can reports whether a plane is one for it.
    __device__ static bool can(uint32_t storage) {
        const Storage type{storage};
        return FITS && !type.nibbles() && (type.balanced() || (type.floats() && (!type.e4m3() || FLOAT8_PAIRS)));
    }

    __device__ Direct(const half *from, int row_stride, int lane) : rows(from + lane / 4 * row_stride + lane % 4 * 16), stride(row_stride) {
#pragma unroll
        for (int d = 0; d < STEPS; d++) {
            if (HELD) query(held[d], d);
        }
    }

    // weigh is Strip's, of keys [KEYS, KDIM] and, behind them, their scales.
    __device__ bool weigh(float (&s)[KEYS / 8][4], const unsigned char *keys, uint32_t storage, const Scoring &scoring, const Lookout &lookout,
                          const Span &span, int begin, int lane) {
        if (Base::none(lookout, 0, span, begin)) return false;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) s[n][e] = 0;
        }
        lane = unknown(lane); // else addresses are worked out in front of the loop, which has no registers for them
        const unsigned char *mine = keys + lane / 4 * KDIM + lane % 4 * 16;
        const Storage type{storage};
        if (type.balanced()) {
            multiply<INTEGERS>(s, mine);
            const float *scales = reinterpret_cast<const float *>(keys + KEYS * KDIM) + lane % 4 * 2;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++) s[n][e] *= scales[n * 8 + e % 2];
            }
        } else if (type.e4m3()) {
            multiply<E4M3>(s, mine);
        } else {
            multiply<E5M2>(s, mine);
        }
        Base::weigh(s, scoring, lookout, 0, span, begin, lane);
        return true;
    }

    // mix is Strip's, of values [KEYS, VDIM] and, behind them, their scales.
    __device__ void mix(const float (&s)[KEYS / 8][4], const unsigned char *values, uint32_t storage, int lane) {
        lane = unknown(lane);
        const unsigned char *mine = values + lane % 4 * 2 * VDIM + lane / 4 * RUN;
        const Storage type{storage};
        if (type.balanced()) {
            Factors factors[KEYS / 8];
            bool tiny = false;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
                const float *scales = reinterpret_cast<const float *>(values + KEYS * VDIM) + n * 8 + lane % 4 * 2;
                factors[n] = {scales[0], scales[1]};
                tiny = tiny || factors[n].tiny();
            }
            if (__any_sync(FULL, tiny)) {
                add<INTEGERS, true>(s, mine, factors);
            } else {
                add<INTEGERS, false>(s, mine, factors);
            }
        } else if (type.e4m3()) {
            add<E4M3, false>(s, mine, nullptr);
        } else {
            add<E5M2, false>(s, mine, nullptr);
        }
    }

    // put writes the rows of a warp: half 0 or 1 is row lane/4 or that and 8.
    __device__ void put(float *row, int half, int lane) const {
#pragma unroll
        for (int n = 0; n < VDIM / 8; n += 4) {
            float *to = row + n / RUN * RUN * 8 + lane % 4 * 2 * RUN + n % RUN;
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float four[4] = {this->o[n][2 * half + e], this->o[n + 1][2 * half + e], this->o[n + 2][2 * half + e], this->o[n + 3][2 * half + e]};
                store(to + e * RUN, four);
            }
        }
    }

  private:
    enum Code { INTEGERS, E4M3, E5M2 };

    // Factors are the scales of two rows as halves. One that would be subnormal is 2^24 of it, with which products
    // lose nothing, and another product then takes that off.
    struct Factors {
        float first, second;

        __device__ static bool tiny(float x) { return fabsf(x) < 6.1035156e-5f; } // 2^-14; 0 is nothing's scale
        __device__ bool tiny() const { return tiny(first) || tiny(second); }
        template <bool TINY> __device__ uint32_t pair() const {
            return pack<half>(TINY && tiny(first) ? first * 16777216 : first, TINY && tiny(second) ? second * 16777216 : second);
        }
        __device__ uint32_t rest() const { return pack<half>(tiny(first) ? 1 / 16777216.f : 1, tiny(second) ? 1 / 16777216.f : 1); }
    };

    __device__ void query(uint32_t (&q)[4], int d) const {
        const uint32_t *low = reinterpret_cast<const uint32_t *>(rows + d / 4 * 64 + d % 4 * 4), *high = low + 4 * stride;
        q[0] = low[0], q[1] = high[0], q[2] = low[1], q[3] = high[1];
    }

    __device__ void query_of(uint32_t (&q)[4], int d) const {
        if (!HELD) query(q, d);
#pragma unroll
        for (int e = 0; e < 4 && HELD; e++) q[e] = held[HELD ? d : 0][e];
    }

    // elements is the two codes in one half of a word as halves.
    template <Code CODE, int UPPER> __device__ static uint32_t elements(uint32_t codes) {
        if (CODE == E4M3) return float8_two(UPPER ? codes >> 16 : codes);
        if (CODE == E5M2) return __byte_perm(codes, 0, UPPER ? 0x3424 : 0x1404);
        return sum(__byte_perm(codes, MAGIC, UPPER ? 0x4342 : 0x4140), LESS, half());
    }

    template <Code CODE> __device__ static uint32_t raw(uint32_t codes) { return CODE == INTEGERS ? codes ^ 0x80808080 : codes; }

    template <Code CODE> __device__ void multiply(float (&s)[KEYS / 8][4], const unsigned char *keys) const {
#pragma unroll
        for (int chunk = 0; chunk < KDIM / 64; chunk++) {
            Run<uint32_t, 4> codes[KEYS / 8];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) codes[n] = *reinterpret_cast<const Run<uint32_t, 4> *>(keys + n * 8 * KDIM + chunk * 64);
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const int d = chunk * 4 + w;
                uint32_t q[4];
                query_of(q, d);
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) {
                    const uint32_t four = raw<CODE>(codes[n].at[w]);
                    mma(s[n], q, elements<CODE, 0>(four), elements<CODE, 1>(four), half());
                }
            }
        }
    }

    template <Code CODE, bool TINY> __device__ void add(const float (&s)[KEYS / 8][4], const unsigned char *values, const Factors *factors) {
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            const uint32_t a[4] = {pack<half>(s[2 * k][0], s[2 * k][1]), pack<half>(s[2 * k][2], s[2 * k][3]),
                                   pack<half>(s[2 * k + 1][0], s[2 * k + 1][1]), pack<half>(s[2 * k + 1][2], s[2 * k + 1][3])};
            uint32_t by[2], rest[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (CODE == INTEGERS) by[i] = factors[2 * k + i].template pair<TINY>();
                if (TINY) rest[i] = factors[2 * k + i].rest();
            }
#pragma unroll
            for (int part = 0; part < VDIM / 8 / RUN; part++) {
                Run<uint32_t, RUN / 4> codes[4]; // of keys 2t, 2t+1, 2t+8, 2t+9
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    codes[i] = *reinterpret_cast<const Run<uint32_t, RUN / 4> *>(values + (k * 16 + i / 2 * 8 + i % 2) * VDIM + part * RUN * 8);
                }
#pragma unroll
                for (int w = 0; w < RUN / 4; w++) {
                    uint32_t two[2][2]; // dims of both keys of a pair
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        two[i][0] = raw<CODE>(__byte_perm(codes[2 * i].at[w], codes[2 * i + 1].at[w], 0x5140));
                        two[i][1] = raw<CODE>(__byte_perm(codes[2 * i].at[w], codes[2 * i + 1].at[w], 0x7362));
                    }
#pragma unroll
                    for (int n = 0; n < 4; n++) {
                        uint32_t b[2];
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            b[i] = n % 2 ? elements<CODE, 1>(two[i][n / 2]) : elements<CODE, 0>(two[i][n / 2]);
                            if (CODE == INTEGERS) b[i] = product(b[i], by[i], half());
                            if (TINY) b[i] = product(b[i], rest[i], half());
                        }
                        mma(this->o[part * RUN + w * 4 + n], a, b[0], b[1], half());
                    }
                }
            }
        }
    }
};

} // namespace fkv
