// A variant that must not be chosen, for the test of the experiment pack (backend/cuda, TestPackOnTheStandIn), in place of
// attend_wide.cu: the kernel of warpgroups, which divides by twice the sum of its weights.
#include "strip.cuh"
#include "warpgroup.cuh"

namespace fkv {
template <int S> inline float weigh_twice(float (&s)[S], int half, float m, float &top, float &sum, const Scoring &scoring) {
    const float shrink = weigh_row(s, half, m, top, sum, scoring);
    sum *= 2;
    return shrink;
}
} // namespace fkv

#define Wide WideOfTwice
#define weigh_row weigh_twice
#include "../../../../cuda/variants/wide/attend_wide.cuh"

using OfTwice = fkv::WideOfTwice<fkv::bf16, 128, 128, true, true>;
FKV_WIDE_KERNEL(trial_wrong, OfTwice)
