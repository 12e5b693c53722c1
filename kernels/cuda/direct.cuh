// Attention on tensor cores with codes as they lie in a ring: each lane makes, of the codes that it has
// loaded, the fragments that it multiplies.
#pragma once

#include "fragment.cuh"
#include "strip.cuh"

namespace fkv {

// Direct is a Strip for such codes. Where elements of a tile would be written to shared memory, and read again as
// fragments, lanes take codes that lie together and it is the order of dims that suits them: queries are read
// in the same one, and what values add up to is put back into place at the end. With g = lane/4 and t = lane%4, and
// for every 64 dims of keys, lane (g, t) has dims [16t, 16t+16) of key g, four of them a step, or of codes of 4
// bits its quarter of all; for every 64 or 128 of values, dims 8g or 16g and on of its four keys, one of them a fragment.
//
// The scale of a row of int8 is not for its elements: scores are multiplied with it, or pairs of values.
template <int KDIM, int VDIM, int KEYS> struct Direct : Weights<half, VDIM, KEYS, VDIM> {
    using Base = Weights<half, VDIM, KEYS, VDIM>;
    static constexpr bool FITS = KDIM % 64 == 0 && VDIM % 64 == 0, HELD = KDIM <= 128;
    static constexpr int STEPS = KDIM / 16, STRIDE = QUERY_STRIDE<KDIM>;
    static constexpr int RUN = VDIM % 128 == 0 ? 16 : 8; // dims of a lane that lie together

    const half *rows; // of queries: this lane's part
    uint32_t held[HELD ? STEPS : 1][4];

    // can reports whether the planes are for it.
    __device__ static bool can(uint32_t k_storage, uint32_t v_storage) {
        return FITS && can(Storage{k_storage}) && can(Storage{v_storage}) && (HELD || !Storage{k_storage}.nibbles());
    }

    __device__ Direct(const half *from, const fkv_attend_args &args, int lane) : rows(from + lane / 4 * STRIDE + lane % 4 * 16) {
        const bool nibbles = Storage{args.k_storage}.nibbles();
        if (HELD && nibbles) rows += lane % 4 * (KDIM / 4 - 16);
#pragma unroll
        for (int d = 0; d < STEPS; d++) {
            if (!HELD) continue;
            if (nibbles) {
                query4(held[d], d);
            } else {
                query(held[d], d);
            }
        }
    }

    // weigh is Strip's, of keys [KEYS, KDIM] and, behind them, their words.
    __device__ bool weigh(float (&s)[KEYS / 8][4], const unsigned char *keys, uint32_t storage, const Scoring &scoring, const Lookout &lookout,
                          const Span &span, int begin, int lane) {
        const int last = int(unknown(min(begin + KEYS, span.count) - 1)); // else the loop keeps what is one less than the first
        if (lookout.extent(0).none(span.at(begin), span.at(last))) return false;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) s[n][e] = 0;
        }
        lane = unknown(lane); // else addresses are worked out in front of the loop, which has no registers for them
        const Storage type{storage};
        if (type.nibbles()) {
            if constexpr (HELD) multiply4(s, keys, type, lane);
        } else if (type.balanced()) {
            multiply8<SIGNED>(s, keys, lane);
            const float *scales = reinterpret_cast<const float *>(keys + KEYS * KDIM) + lane % 4 * 2;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++) s[n][e] *= scales[n * 8 + e % 2];
            }
        } else if (!type.floats()) {
            multiply8<UNSIGNED>(s, keys, lane);
        } else if (type.e4m3()) {
            multiply8<E4M3>(s, keys, lane);
        } else {
            multiply8<E5M2>(s, keys, lane);
        }
        Base::weigh(s, scoring, lookout, 0, span, begin, lane);
        return true;
    }

    // mix is Strip's, of values [KEYS, VDIM] and, behind them, their words.
    __device__ void mix(const float (&s)[KEYS / 8][4], const unsigned char *values, uint32_t storage, int lane) {
        lane = unknown(lane);
        const Storage type{storage};
        if (type.nibbles()) {
            add4(s, values, type, lane);
        } else if (type.balanced()) {
            add8<SIGNED>(s, values, lane);
        } else if (!type.floats()) {
            add8<UNSIGNED>(s, values, lane);
        } else if (type.e4m3()) {
            add8<E4M3>(s, values, lane);
        } else {
            add8<E5M2>(s, values, lane);
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
    // can is all but codes of 4 bits that are floats or have words by channel.
    __device__ static bool can(const Storage &type) {
        if (type.nibbles()) return !type.floats() && !type.channels() && !type.quarters();
        return FLOAT8_PAIRS || !type.e4m3();
    }

    __device__ void query(uint32_t (&q)[4], int d) const {
        const uint32_t *low = reinterpret_cast<const uint32_t *>(rows + d / 4 * 64 + d % 4 * 4), *high = low + 4 * STRIDE;
        q[0] = low[0], q[1] = high[0], q[2] = low[1], q[3] = high[1];
    }

    // query4 is query of 4-bit codes: a word's codes 0 and 4, 1 and 5 are of a step, 2 and 6, 3 and 7 of the next.
    __device__ void query4(uint32_t (&q)[4], int d) const {
        const uint32_t *low = reinterpret_cast<const uint32_t *>(rows + d / 2 * 8 + d % 2 * 2), *high = low + 4 * STRIDE;
        q[0] = __byte_perm(low[0], low[2], 0x5410), q[1] = __byte_perm(high[0], high[2], 0x5410);
        q[2] = __byte_perm(low[0], low[2], 0x7632), q[3] = __byte_perm(high[0], high[2], 0x7632);
    }

    __device__ void query_of(uint32_t (&q)[4], int d) const {
        if (!HELD) query(q, d);
#pragma unroll
        for (int e = 0; e < 4 && HELD; e++) q[e] = held[HELD ? d : 0][e];
    }

    template <Code CODE> __device__ void multiply8(float (&s)[KEYS / 8][4], const unsigned char *keys, int lane) const {
        if constexpr (CODE == UNSIGNED) {
            const uint32_t *words = reinterpret_cast<const uint32_t *>(keys + KEYS * KDIM) + lane / 4;
            bool tiny = false;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) tiny = tiny || Affine<0, true>::tiny(words[n * 8]);
            if (__any_sync(FULL, tiny)) {
                multiply8<CODE, true>(s, keys, words, lane);
                return;
            }
            multiply8<CODE, false>(s, keys, words, lane);
        } else {
            multiply8<CODE, false>(s, keys, nullptr, lane);
        }
    }

    template <Code CODE, bool TINY> __device__ void multiply8(float (&s)[KEYS / 8][4], const unsigned char *keys, const uint32_t *words, int lane) const {
        const unsigned char *mine = keys + lane / 4 * KDIM + lane % 4 * 16;
#pragma unroll
        for (int chunk = 0; chunk < KDIM / 64; chunk++) {
            Run<uint32_t, 4> codes[KEYS / 8];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) codes[n] = *reinterpret_cast<const Run<uint32_t, 4> *>(mine + n * 8 * KDIM + chunk * 64);
#pragma unroll
            for (int w = 0; w < 4; w++) {
                uint32_t q[4];
                query_of(q, chunk * 4 + w);
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) {
                    const uint32_t four = raw<CODE>(codes[n].at[w]);
                    uint32_t b[2] = {elements<CODE, 0>(four), elements<CODE, 1>(four)};
                    if constexpr (CODE == UNSIGNED) {
                        const Affine<0, TINY> by(words[n * 8], words[n * 8]);
#pragma unroll
                        for (int i = 0; i < 2; i++) {
                            b[i] = fused(b[i], by.step, by.least, half());
                            if (TINY) b[i] = product(b[i], by.rest, half());
                        }
                    }
                    mma(s[n], q, b[0], b[1], half());
                }
            }
        }
    }

    __device__ void multiply4(float (&s)[KEYS / 8][4], const unsigned char *keys, const Storage &type, int lane) const {
        const int own = type.words(KDIM);
        const uint32_t *words = reinterpret_cast<const uint32_t *>(keys + KEYS * KDIM / 2) + lane / 4 * own + (lane % 4 * (KDIM / 32) >> type.spread());
        bool tiny = false;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) tiny = tiny || Affine<FKV_NIBBLES, true>::tiny(words[n * 8 * own]);
        if (__any_sync(FULL, tiny)) {
            multiply4<true>(s, keys, words, own, lane);
        } else {
            multiply4<false>(s, keys, words, own, lane);
        }
    }

    template <bool TINY>
    __device__ void multiply4(float (&s)[KEYS / 8][4], const unsigned char *keys, const uint32_t *words, int own, int lane) const {
        const unsigned char *mine = keys + lane / 4 * (KDIM / 2) + lane % 4 * (KDIM / 8);
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
            const Affine<FKV_NIBBLES, TINY> by(words[n * 8 * own], words[n * 8 * own]);
            const Run<uint32_t, KDIM / 32> codes = *reinterpret_cast<const Run<uint32_t, KDIM / 32> *>(mine + n * 8 * (KDIM / 2));
#pragma unroll
            for (int w = 0; w < KDIM / 32; w++) {
                uint32_t q[4];
                query_of(q, 2 * w);
                mma(s[n], q, element<0, TINY>(codes.at[w], by), element<1, TINY>(codes.at[w], by), half());
                query_of(q, 2 * w + 1);
                mma(s[n], q, element<2, TINY>(codes.at[w], by), element<3, TINY>(codes.at[w], by), half());
            }
        }
    }

    // weights are those of 16 keys, rounded, as a fragment.
    __device__ static void weights(uint32_t (&a)[4], const float (&low)[4], const float (&high)[4]) {
        a[0] = pack<half>(low[0], low[1]), a[1] = pack<half>(low[2], low[3]);
        a[2] = pack<half>(high[0], high[1]), a[3] = pack<half>(high[2], high[3]);
    }

    template <Code CODE> __device__ void add8(const float (&s)[KEYS / 8][4], const unsigned char *values, int lane) {
        if constexpr (CODE == SIGNED || CODE == UNSIGNED) {
            constexpr uint32_t TYPE = CODE == SIGNED ? FKV_SIGNED : 0;
            const uint32_t *words = reinterpret_cast<const uint32_t *>(values + KEYS * VDIM) + lane % 4 * 2;
            bool tiny = false;
#pragma unroll
            for (int i = 0; i < KEYS / 4; i++) tiny = tiny || Affine<TYPE, true>::tiny(words[i / 2 * 8 + i % 2]);
            if (__any_sync(FULL, tiny)) {
                add8<CODE, true>(s, values, words, lane);
                return;
            }
            add8<CODE, false>(s, values, words, lane);
        } else {
            add8<CODE, false>(s, values, nullptr, lane);
        }
    }

    template <Code CODE, bool TINY> __device__ void add8(const float (&s)[KEYS / 8][4], const unsigned char *values, const uint32_t *words, int lane) {
        const unsigned char *mine = values + lane % 4 * 2 * VDIM + lane / 4 * RUN;
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            uint32_t a[4], by[2], least[2], rest[2];
            weights(a, s[2 * k], s[2 * k + 1]);
#pragma unroll
            for (int i = 0; i < 2 && (CODE == SIGNED || CODE == UNSIGNED); i++) {
                const Affine<CODE == SIGNED ? FKV_SIGNED : 0, TINY> both(words[k * 16 + i * 8], words[k * 16 + i * 8 + 1]);
                by[i] = both.step, least[i] = both.least, rest[i] = both.rest;
            }
#pragma unroll
            for (int part = 0; part < VDIM / 8 / RUN; part++) {
                Run<uint32_t, RUN / 4> codes[4]; // of keys 2t, 2t+1, 2t+8, 2t+9
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    codes[i] = *reinterpret_cast<const Run<uint32_t, RUN / 4> *>(mine + (k * 16 + i / 2 * 8 + i % 2) * VDIM + part * RUN * 8);
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
                            if (CODE == SIGNED) b[i] = product(b[i], by[i], half());
                            if (CODE == UNSIGNED) b[i] = fused(b[i], by[i], least[i], half());
                            if (TINY) b[i] = product(b[i], rest[i], half());
                        }
                        mma(this->o[part * RUN + w * 4 + n], a, b[0], b[1], half());
                    }
                }
            }
        }
    }

    __device__ void add4(const float (&s)[KEYS / 8][4], const unsigned char *values, const Storage &type, int lane) {
        const int own = type.words(VDIM);
        const uint32_t *words = reinterpret_cast<const uint32_t *>(values + KEYS * VDIM / 2) + lane % 4 * 2 * own;
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            uint32_t a[4];
            weights(a, s[2 * k], s[2 * k + 1]);
#pragma unroll
            for (int part = 0; part < VDIM / 8 / RUN; part++) {
                const uint32_t *of = words + k * 16 * own + ((part * 8 + lane / 4) * (RUN / 8) >> type.spread());
                const uint32_t word[4] = {of[0], of[own], of[8 * own], of[9 * own]};
                bool tiny = false;
#pragma unroll
                for (int i = 0; i < 4; i++) tiny = tiny || Affine<FKV_NIBBLES, true>::tiny(word[i]);
                const unsigned char *mine = values + (k * 16 + lane % 4 * 2) * (VDIM / 2) + (part * 8 + lane / 4) * (RUN / 2);
                if (__any_sync(FULL, tiny)) {
                    add4<true>(part, a, mine, word);
                } else {
                    add4<false>(part, a, mine, word);
                }
            }
        }
    }

    template <bool TINY> __device__ void add4(int part, const uint32_t (&a)[4], const unsigned char *mine, const uint32_t (&word)[4]) {
        const Affine<FKV_NIBBLES, TINY> by[2] = {{word[0], word[1]}, {word[2], word[3]}};
        Run<uint32_t, RUN / 8> codes[4];
#pragma unroll
        for (int i = 0; i < 4; i++) codes[i] = *reinterpret_cast<const Run<uint32_t, RUN / 8> *>(mine + (i / 2 * 8 + i % 2) * (VDIM / 2));
#pragma unroll
        for (int w = 0; w < RUN / 8; w++) {
#pragma unroll
            for (int upper = 0; upper < 2; upper++) {
                uint32_t four[2]; // dims of both keys of a pair
#pragma unroll
                for (int i = 0; i < 2; i++) four[i] = __byte_perm(codes[2 * i].at[w], codes[2 * i + 1].at[w], upper ? 0x7632 : 0x5410);
                float(&to)[VDIM / 8][4] = this->o;
                const int n = part * RUN + w * 8 + upper * 4;
                mma(to[n], a, element<0, TINY>(four[0], by[0]), element<0, TINY>(four[1], by[1]), half());
                mma(to[n + 1], a, element<1, TINY>(four[0], by[0]), element<1, TINY>(four[1], by[1]), half());
                mma(to[n + 2], a, element<2, TINY>(four[0], by[0]), element<2, TINY>(four[1], by[1]), half());
                mma(to[n + 3], a, element<3, TINY>(four[0], by[0]), element<3, TINY>(four[1], by[1]), half());
            }
        }
    }
};

} // namespace fkv
