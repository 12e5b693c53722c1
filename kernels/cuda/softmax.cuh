// Scores and the sums of a softmax over a part of the keys.
#pragma once

#include "attend.cuh"
#include "ptx.cuh"

namespace fkv {

constexpr float NEG_INF = -INFINITY;
constexpr float LOG2E = 1.4426950408889634f;

// tanh_short is tanh to 4e-7, in a third of the instructions of tanhf: it stands in
// loops that are unrolled. Near 0, where the difference from 1 would lose digits, it is
// the series.
__device__ inline float tanh_short(float x) {
    float y = x * x;
    float near = x - x * y * (1 / 3.f - y * (2 / 15.f - y * (17 / 315.f - y * (62 / 2835.f))));
    float far = 1 - __fdividef(2, exp2_fast(x * (2 * LOG2E)) + 1);
    return y < 0.1f ? near : far;
}

// Scoring turns products of queries and keys into scores. A call without soft-cap and
// ALiBi needs no more than a factor, which is more than 0, which the exponent takes along: then a score is the
// product itself, and natural is the factor. Differences of scores are taken before they
// are scaled, so that large scores lose nothing.
struct Scoring {
    float scale, softcap, inverse; // of softcap
    bool plain;
    float natural; // from a score to natural logarithms
    float binary;  // and to logarithms of 2

    // worth is what a product is worth, anything: see left_out.
    __device__ Scoring(const fkv_attend_args &args, const float *alibi, float worth)
        : scale(args.scale * worth), softcap(args.softcap), inverse(1 / args.softcap), plain(!(args.softcap > 0) && !alibi && scale > 0),
          natural(plain ? scale : 1), binary(natural * LOG2E) {}

    // score is soft-capped and biased for a key distance after its query.
    __device__ float score(float product, float slope, int distance) const {
        if (plain) return product;
        float s = product * scale;
        if (softcap > 0) s = softcap * tanh_short(s * inverse);
        return s + slope * float(distance);
    }

    // weight is e to a score less top, which is no smaller; 0 for a top of -inf.
    __device__ float weight(float score, float top) const {
        return exp2_fast((score - (top == NEG_INF ? 0 : top)) * binary);
    }
};

// Finish is the factor that makes a sum of weighted values a row, and its log-sum-exp.
struct Finish {
    float factor, lse;

    // top and sum are those of the row's weights, sink a logit that takes part, if any. A
    // row of no keys is 0.
    __device__ Finish(float top, float sum, float natural, const float *sink) {
        float high = top * natural, shrink = 1;
        if (sink && *sink != NEG_INF) {
            float both = fmaxf(high, *sink);
            shrink = exp2_fast((high - both) * LOG2E);
            sum = sum * shrink + exp2_fast((*sink - both) * LOG2E);
            high = both;
        }
        factor = sum == 0 ? 0 : shrink / sum;
        lse = sum == 0 ? NEG_INF : high + logf(sum);
    }
};

} // namespace fkv
