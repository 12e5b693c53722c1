// Rotary position embedding (RoFormer, arXiv:2104.09864) of a head's leading dims.
#pragma once

#include "run.cuh"

namespace fkv {

// Turn is the rotation of one token's heads.
struct Turn {
    const float *angles; // cos and sin of each pair: a row of the table
    uint32_t pairs;      // 0: nothing rotates
    bool interleaved;    // pairs are (2i, 2i+1), not (i, i+pairs)
    float sign;          // of the sines: -1 turns back
    float magnitude;     // factor on what rotates
};

// A thread works on a unit of a head: W pairs in two runs of W elements, or, from
// unit pairs/W on, one run of dims that do not rotate. A unit holds both elements of
// its pairs, so a head can be turned in place without a barrier. W divides pairs;
// with W = 1 every number of pairs will do.
template <int W> __device__ inline uint32_t head_units(uint32_t dim, uint32_t pairs) { return (dim - pairs) / W; }

// turn_pairs rotates W pairs, whose elements are (2i, 2i+1) or (i, i+W) of x.
template <int W, bool INTERLEAVED>
__device__ inline void turn_pairs(const Turn &t, float (&x)[2 * W], const float (&angles)[2 * W]) {
#pragma unroll
    for (int i = 0; i < W; i++) {
        float &a = x[INTERLEAVED ? 2 * i : i], &b = x[INTERLEAVED ? 2 * i + 1 : W + i];
        const float cos = angles[2 * i], sin = angles[2 * i + 1] * t.sign;
        const float turned = (a * cos - b * sin) * t.magnitude;
        b = (a * sin + b * cos) * t.magnitude;
        a = turned;
    }
}

// load_two reads two runs and puts one behind the other.
template <int W, class T> __device__ inline void load_two(float (&x)[2 * W], const T *low, const T *high) {
    const Run<T, W> a = load_run<W>(low), b = load_run<W>(high);
#pragma unroll
    for (int i = 0; i < W; i++) {
        x[i] = to_float(a.at[i]);
        x[W + i] = to_float(b.at[i]);
    }
}

// bounded is x, or of what is beyond a magnitude, infinities included, that magnitude. NaN stays.
__device__ inline float bounded(float x, float most) { return fabsf(x) > most ? copysignf(most, x) : x; }

// turn_unit reads one unit of a head, rotates it and writes it; to may be from. With BOUND what leaves the range of To
// ends at its largest number.
template <int W, bool BOUND = false, class From, class To>
__device__ inline void turn_unit(const Turn &t, uint32_t unit, const From *from, To *to) {
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
        a.at[i] = from_float<To>(BOUND ? bounded(x[i], MOST_OF<To>) : x[i]);
        b.at[i] = from_float<To>(BOUND ? bounded(x[W + i], MOST_OF<To>) : x[W + i]);
    }
    store_run<W>(to + low, a);
    store_run<W>(to + high, b);
}

} // namespace fkv
