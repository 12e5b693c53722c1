// Scores and the sums of a softmax over a part of the keys.
#pragma once

#include "attend.h"

namespace fkv {

constant constexpr float NEG_INF = -INFINITY;
constant constexpr float LOG2E = 1.4426950408889634f;

// weight_of is 2^x by the GPU's own instruction, which takes a fraction of the time of the exact
// function and errs by a few units in the last place, more for small results. What fast functions
// do not promise is said beside it: -inf becomes 0, and NaN stays.
inline float weight_of(float x) {
    const float power = fast::exp2(x), other = x == NEG_INF ? 0 : x;
    return fabs(x) < INFINITY ? power : other;
}

// tanh_short is tanh to 4e-7 for the price of one exp2. Near 0, where the difference
// from 1 would lose digits, it is the series.
inline float tanh_short(float x) {
    const float y = x * x;
    const float near = x - x * y * (1 / 3.f - y * (2 / 15.f - y * (17 / 315.f - y * (62 / 2835.f))));
    const float far = 1 - 2 / (exp2(x * (2 * LOG2E)) + 1);
    return y < 0.1f ? near : far;
}

// Scoring turns products of queries and keys into scores. A call without soft-cap and
// ALiBi needs no more than a factor, which the exponent takes along: then a score is the
// product itself, and natural is the factor. Differences of scores are taken before they
// are scaled, so that large scores lose nothing.
struct Scoring {
    bool plain;
    float scale, softcap, inverse; // of softcap
    float natural;                 // from a score to natural logarithms
    float binary;                  // and to logarithms of 2

    Scoring(constant fkv_attend_args &args)
        : plain(!with_softcap && !with_alibi), scale(args.scale), softcap(args.softcap), inverse(1 / args.softcap),
          natural(plain ? args.scale : 1), binary(natural * LOG2E) {}

    // score is soft-capped and biased for a key distance after its query.
    float score(float product, float slope, int distance) const {
        if (plain) return product;
        float s = product * scale;
        if (with_softcap) s = softcap * tanh_short(s * inverse);
        if (with_alibi) s += slope * float(distance);
        return s;
    }

    // weight is e to a score less top, which is no smaller; 0 for a top of -inf.
    float weight(float score, float top) const { return weight_of((score - (top == NEG_INF ? 0 : top)) * binary); }
};

// Finish is the factor that makes a sum of weighted values a row, and its log-sum-exp.
struct Finish {
    float factor, lse;

    // top and sum are those of the row's weights, sink a logit that takes part, -inf for
    // none. A row of no keys is 0.
    Finish(float top, float sum, float natural, float sink) {
        float high = top * natural, shrink = 1;
        if (sink != NEG_INF) {
            const float both = max(high, sink);
            shrink = weight_of((high - both) * LOG2E);
            sum = sum * shrink + weight_of((sink - both) * LOG2E);
            high = both;
        }
        factor = sum == 0 ? 0 : shrink / sum;
        lse = sum == 0 ? NEG_INF : high + log(sum);
    }
};

} // namespace fkv
