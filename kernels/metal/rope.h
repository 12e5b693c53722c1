// Rotary position embedding (RoFormer, arXiv:2104.09864) of a head's leading dims.
#pragma once

#include "run.h"

namespace fkv {

// Turn is the rotation of one token's heads.
struct Turn {
    const device float *angles; // cos and sin of each pair: a row of the table
    uint32_t pairs;             // 0: nothing rotates
    bool interleaved;           // pairs are (2i, 2i+1), not (i, i+pairs)
    float sign;                 // of the sines: -1 turns back
    float magnitude;            // factor on what rotates
};

// A thread works on a unit of a head: W pairs in two runs of W elements, or, from
// unit pairs/W on, one run of dims that do not rotate. A unit holds both elements of
// its pairs, so a head can be turned in place without a barrier. W divides pairs;
// with W = 1 every number of pairs will do.
template <int W> inline uint32_t head_units(uint32_t dim, uint32_t pairs) { return (dim - pairs) / W; }

// turn_pairs rotates W pairs, whose elements are (2i, 2i+1) or (i, i+W) of x.
template <int W, bool INTERLEAVED>
inline void turn_pairs(Turn t, thread float (&x)[2 * W], const thread float (&angles)[2 * W]) {
#pragma unroll
    for (int i = 0; i < W; i++) {
        const int low = INTERLEAVED ? 2 * i : i, high = INTERLEAVED ? 2 * i + 1 : W + i;
        const float a = x[low], b = x[high];
        const float cos = angles[2 * i], sin = angles[2 * i + 1] * t.sign;
        x[low] = (a * cos - b * sin) * t.magnitude;
        x[high] = (a * sin + b * cos) * t.magnitude;
    }
}

// load_two reads two runs and puts one behind the other.
template <int W, class T>
inline void load_two(thread float (&x)[2 * W], const device T *low, const device T *high) {
    const Run<T, W> a = load_run<W>(low), b = load_run<W>(high);
#pragma unroll
    for (int i = 0; i < W; i++) {
        x[i] = to_float(a.at[i]);
        x[W + i] = to_float(b.at[i]);
    }
}

// bounded is x, or of what is beyond a magnitude, infinities included, that magnitude. NaN stays.
inline float bounded(float x, float most) { return x > most ? most : x < -most ? -most : x; }

// turn_unit reads one unit of a head, rotates it and writes it; to may be from. With BOUND what leaves the range of To
// ends at its largest number.
template <int W, bool BOUND = false, class From, class To>
inline void turn_unit(Turn t, uint32_t unit, const device From *from, device To *to) {
    const uint32_t pair = unit * W;
    if (pair >= t.pairs) {
        copy_run<W>(from + t.pairs + pair, to + t.pairs + pair);
        return;
    }
    const uint32_t low = t.interleaved ? 2 * pair : pair;
    const uint32_t high = t.interleaved ? low + W : low + t.pairs;
    float x[2 * W], angles[2 * W];
    load_two<W>(x, from + low, from + high);
    load_two<W>(angles, t.angles + 2 * pair, t.angles + 2 * pair + W);
    if (t.interleaved) {
        turn_pairs<W, true>(t, x, angles);
    } else {
        turn_pairs<W, false>(t, x, angles);
    }
    Run<To, W> a, b;
#pragma unroll
    for (int i = 0; i < W; i++) {
        a.at[i] = from_float<To>(BOUND ? bounded(x[i], most_of<To>()) : x[i]);
        b.at[i] = from_float<To>(BOUND ? bounded(x[W + i], most_of<To>()) : x[W + i]);
    }
    store_run<W>(to + low, a);
    store_run<W>(to + high, b);
}

} // namespace fkv
