// Merge: attention results over disjoint keys become one, weighted by their
// log-sum-exps (FlashAttention, arXiv:2205.14135; cascades of shared prefixes).
#include "plane.h"
#include "run.h"

namespace {

constant constexpr uint THREADS = 128;
constant constexpr int64_t SIMDGROUPS = THREADS / fkv::LANES;

// Weights are the shares of a row's parts before they are normalised: part p counts
// exp(lse[p*step] - top).
struct Weights {
    const device float *lse; // of part 0
    int64_t step;            // from one part to the next
    float top, sum;          // the largest lse; -inf: there is nothing to merge

    // at is a part's log-sum-exp. One of +inf says that there is nothing, as -inf does.
    float at(uint32_t part) const {
        const float x = lse[part * step];
        return x == INFINITY ? -INFINITY : x;
    }
    float of(uint32_t part) const { return exp(at(part) - top); }
};

// larger is the larger number, and NaN if either is, so that bad input shows; max would
// drop it.
inline float larger(float a, float b) { return a > b || isnan(a) ? a : b; }

// weights_of is computed by a simdgroup together, each lane over its own parts.
inline Weights weights_of(const device float *lse, int64_t step, uint32_t parts, uint lane) {
    Weights w{lse, step, -INFINITY, 0};
    for (uint32_t part = lane; part < parts; part += fkv::LANES) {
        w.top = larger(w.at(part), w.top);
    }
    for (ushort distance = 16; distance > 0; distance /= 2) {
        w.top = larger(simd_shuffle_xor(w.top, distance), w.top);
    }
    if (w.top == -INFINITY) {
        return w;
    }
    for (uint32_t part = lane; part < parts; part += fkv::LANES) {
        w.sum += w.of(part);
    }
    w.sum = simd_sum(w.sum);
    return w;
}

// merge_row is one row's work of a simdgroup, W elements a lane at a time. in is the row of
// part 0, and the other parts' are step apart. A part of weight 0 is not read: its row
// may hold anything.
template <int W, class In, class Out>
inline void merge_row(const thread Weights &weights, uint32_t parts, const device In *in, int64_t step,
                      device Out *out, uint32_t dim, uint lane) {
    const bool any = weights.top != -INFINITY;
    const float scale = any ? 1 / weights.sum : 0;
    for (uint32_t column = lane * W; column < dim; column += fkv::LANES * W) {
        float sum[W] = {};
        for (uint32_t part = 0; any && part < parts; part++) {
            const float weight = weights.of(part);
            if (weight != 0) {
                const fkv::Run<In, W> row = fkv::load_run<W>(in + part * step + column);
#pragma unroll
                for (int i = 0; i < W; i++) {
                    sum[i] += weight * fkv::to_float(row.at[i]);
                }
            }
        }
        fkv::Run<Out, W> merged;
#pragma unroll
        for (int i = 0; i < W; i++) {
            merged.at[i] = fkv::from_float<Out>(sum[i] * scale);
        }
        fkv::store_run<W>(out + column, merged);
    }
}

} // namespace

// Grid: x over rows, tokens*heads of them, a simdgroup each and 4 a threadgroup; any
// grid is right. Without wide, which asks that rows of both sides are aligned to 16 bytes
// and made of whole runs, they are read an element at a time.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
FKV_NAME(const device FKV_IN *in [[buffer(FKV_MERGE_IN)]],
         const device float *lse [[buffer(FKV_MERGE_LSE)]],
         device FKV_OUT *out [[buffer(FKV_MERGE_OUT)]],
         device float *out_lse [[buffer(FKV_MERGE_OUT_LSE), function_constant(with_lse)]],
         constant fkv_merge_args &args [[buffer(FKV_MERGE_BUFFERS)]],
         FKV_BUILTINS) {
    const fkv::Here here = FKV_HERE;
    const int64_t rows = static_cast<int64_t>(args.tokens) * args.heads;
    for (int64_t row = here.group.x * SIMDGROUPS + here.simdgroup; row < rows; row += here.groups.x * SIMDGROUPS) {
        const Weights weights = weights_of(lse + row, rows, args.parts, here.lane);
        const fkv::Place place = fkv::place_of(row, args.heads); // token and head
        const device FKV_IN *first = in + row * args.dim;
        device FKV_OUT *to =
            out + static_cast<int64_t>(place.block) * args.out_stride + static_cast<int64_t>(place.offset) * args.dim;
        if (wide) {
            merge_row<fkv::run_width<FKV_IN, FKV_OUT>()>(weights, args.parts, first, rows * args.dim, to, args.dim,
                                                         here.lane);
        } else {
            merge_row<1>(weights, args.parts, first, rows * args.dim, to, args.dim, here.lane);
        }
        simdgroup_barrier(mem_flags::mem_device); // out_lse may be the lse of part 0
        if (with_lse && here.lane == 0) {
            out_lse[row] = weights.top == -INFINITY ? -INFINITY : weights.top + log(weights.sum);
        }
    }
}
