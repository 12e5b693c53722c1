// Merge: attention results over disjoint keys become one, weighted by their
// log-sum-exps (FlashAttention, arXiv:2205.14135; cascades of shared prefixes).
#include <math.h>

#include "run.cuh"

namespace {

constexpr unsigned THREADS = 128;
constexpr int64_t WARPS = THREADS / 32;

// Weights are the shares of a row's parts before they are normalised: part p counts
// exp(lse[p*step] - top).
struct Weights {
    const float *lse; // of part 0
    int64_t step;     // from one part to the next
    float top, sum;   // the largest lse; -inf: there is nothing to merge

    // at is a part's log-sum-exp. One of +inf says that there is nothing, as -inf does.
    __device__ float at(uint32_t part) const {
        const float x = lse[part * step];
        return x == INFINITY ? -INFINITY : x;
    }
    __device__ float of(uint32_t part) const { return expf(at(part) - top); }
};

// larger is the larger number, and NaN if either is, so that bad input shows.
__device__ inline float larger(float a, float b) { return a > b || a != a ? a : b; }

// weights_of is computed by a warp together, each lane over its own parts.
__device__ inline Weights weights_of(const float *lse, int64_t step, uint32_t parts) {
    Weights w{lse, step, -INFINITY, 0};
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t part = lane; part < parts; part += 32) {
        w.top = larger(w.at(part), w.top);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        w.top = larger(__shfl_xor_sync(fkv::FULL, w.top, distance), w.top);
    }
    if (w.top == -INFINITY) {
        return w;
    }
    for (uint32_t part = lane; part < parts; part += 32) {
        w.sum += w.of(part);
    }
    for (int distance = 16; distance > 0; distance /= 2) {
        w.sum += __shfl_xor_sync(fkv::FULL, w.sum, distance);
    }
    return w;
}

constexpr int AHEAD = 8; // parts of a row under way at once

// merge_row is one row's work of a warp, W elements a lane at a time. in is the row of
// part 0, and the other parts' are step apart. The row of a part of weight 0 may hold
// anything: it counts for nothing.
template <int W, class In, class Out>
__device__ inline void merge_row(const Weights &weights, uint32_t parts, const In *in, int64_t step, Out *out,
                                 uint32_t dim) {
    const bool any = weights.top != -INFINITY;
    const float scale = any ? 1 / weights.sum : 0;
    for (uint32_t column = threadIdx.x % 32 * W; column < dim; column += 32 * W) {
        float sum[W] = {};
        for (uint32_t first = 0; any && first < parts; first += AHEAD) {
            const In *from = in + first * step + column;
            fkv::Run<In, W> rows[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++, from += step) {
                if (first + a < parts) rows[a] = fkv::load_run<W>(from);
            }
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                const float weight = first + a < parts ? weights.of(first + a) : 0;
#pragma unroll
                for (int i = 0; i < W; i++) {
                    if (weight != 0) sum[i] += weight * fkv::to_float(rows[a].at[i]);
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

template <class In, class Out>
__device__ inline void merge(const In *in, const float *lse, Out *out, float *out_lse, const fkv_merge_args &args) {
    constexpr int W = 16 / sizeof(In); // all lanes have work where a head has 128 elements of f32
    const bool wide = (args.out_stride | args.dim) % W == 0 && fkv::aligned(in, out);
    const int64_t rows = static_cast<int64_t>(args.tokens) * args.heads;
    for (int64_t row = blockIdx.x * WARPS + threadIdx.x / 32; row < rows; row += gridDim.x * WARPS) {
        const Weights weights = weights_of(lse + row, rows, args.parts);
        const int64_t token = static_cast<int64_t>(static_cast<uint64_t>(row) / args.heads);
        const In *first = in + row * args.dim;
        Out *to = out + token * args.out_stride + (row - token * args.heads) * args.dim;
        if (wide) {
            merge_row<W>(weights, args.parts, first, rows * args.dim, to, args.dim);
        } else {
            merge_row<1>(weights, args.parts, first, rows * args.dim, to, args.dim);
        }
        __syncwarp(); // out_lse may be the lse of part 0
        if (out_lse != nullptr && threadIdx.x % 32 == 0) {
            out_lse[row] = weights.top == -INFINITY ? -INFINITY : weights.top + logf(weights.sum);
        }
    }
}

} // namespace

// Grid: x over rows, tokens*heads of them, a warp each and 4 a block; any grid is
// right. Rows that are not aligned to 16 bytes are read an element at a time.
#define MERGE(types, In, Out)                                                                                      \
    FKV_KERNEL(fkv_merge_##types, THREADS, 0, const In *in, const float *lse, Out *out, float *out_lse,            \
               fkv_merge_args args) {                                                                              \
        merge(in, lse, out, out_lse, args);                                                                        \
    }

MERGE(f32_f32, float, float)
MERGE(f16_f16, fkv::half, fkv::half)
MERGE(bf16_bf16, fkv::bfloat, fkv::bfloat)
MERGE(f32_f16, float, fkv::half)
MERGE(f32_bf16, float, fkv::bfloat)
