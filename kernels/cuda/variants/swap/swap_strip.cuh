// The softmax of a warp whose keys are the rows of matrix instructions, and an item's rows their columns.
#pragma once

#include "swap_codes.cuh"

namespace fkv {

// Swapped is what a warp does with tiles of KEYS keys and values: scores are keys times queries, results are values times weights, so
// that rows are padded to 8 instead of 16, and a warp keeps half as much. With g = lane/4
// and t = lane%4 a lane has scores of keys g, g+8, … for rows 2t and 2t+1.
template <class Keys, class Values, int KEYS> struct Swapped {
    using Scores = float[KEYS / 16][4];

    Keys keys;
    Values values;
    float top[2] = {NEG_INF, NEG_INF}, sum[2] = {0, 0};

    __device__ Swapped(const half *queries, int lane) : keys(queries, lane) {}

    // weigh makes weights of a tile's keys, of which tile is the slot. It returns false, and there is nothing to mix, where no row
    // sees any of them.
    template <class Slot>
    __device__ bool weigh(Scores &s, const Slot *tile, uint32_t storage, const Scoring &scoring, const Lookout &lookout, const Span &span, int begin, int lane) {
        const int last = int(unknown(min(begin + KEYS, span.count) - 1)); // else the loop keeps what is one less than the first
        const Extent &extent = lookout.extent(0);
        if (begin < 0 || extent.none(span.at(begin), span.at(last))) return false;
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
#pragma unroll
            for (int e = 0; e < 4; e++) s[k][e] = 0;
        }
        lane = unknown(lane); // else addresses are worked out in front of the loop, which has no registers for them
        keys.multiply(s, tile, storage, lane);
        if (!scoring.plain || begin + KEYS > span.count || !extent.all(span.at(begin), span.at(last))) complete(s, scoring, lookout, span, begin, lane);
        float high[2], shrink[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float m = top[h];
#pragma unroll
            for (int k = 0; k < KEYS / 16; k++) m = fmaxf(m, fmaxf(s[k][h], s[k][2 + h]));
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2) m = fmaxf(m, __shfl_xor_sync(FULL, m, apart));
            high[h] = m;
            shrink[h] = scoring.weight(top[h], m);
        }
        if (__any_sync(FULL, high[0] != top[0] || high[1] != top[1])) values.shrink(shrink[0], shrink[1]);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            top[h] = high[h];
            sum[h] *= shrink[h];
#pragma unroll
            for (int k = 0; k < KEYS / 16; k++) {
#pragma unroll
                for (int e = h; e < 4; e += 2) {
                    s[k][e] = scoring.weight(s[k][e], top[h]);
                    sum[h] += s[k][e];
                }
            }
        }
        Values::hold(s);
        return true;
    }

    template <class Slot> __device__ void mix(Scores &s, const Slot *tile, uint32_t storage, int lane) { values.mix(s, tile, storage, int(unknown(lane))); }

    // end adds up the sums, of which each lane has its keys', and makes values what they stand for.
    __device__ void end() {
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2) sum[h] += __shfl_xor_sync(FULL, sum[h], apart);
        }
        values.end();
    }

  private:
    // complete makes scores of products, -inf where a row does not see the key. It turns the registers past one place, 8 keys at
    // a time, so that its code is there once.
    __device__ void complete(Scores &s, const Scoring &scoring, const Lookout &lookout, const Span &span, int begin, int lane) const {
#pragma unroll 1
        for (int i = 0; i < KEYS / 8; i++) {
            float done[2];
#pragma unroll
            for (int h = 0; h < 2; h++) done[h] = lookout.score(s[0][h], scoring, lane % 4 * 2 + h, span, begin + i * 8 + lane / 4);
#pragma unroll
            for (int h = 0; h < 2; h++) {
#pragma unroll
                for (int k = 0; k < KEYS / 16; k++) {
                    s[k][h] = s[k][2 + h];
                    s[k][2 + h] = k + 1 < KEYS / 16 ? s[(k + 1) % (KEYS / 16)][h] : done[h];
                }
            }
        }
    }
};

} // namespace fkv
