// What attention kernels of warpgroups have in common, for 9.0a: see hopper.cuh.
#pragma once

#include "hopper.cuh"
#include "output.cuh"
#include "stretch.cuh"

namespace fkv {

// swizzled is where a piece of 16 bytes of row r lies among ROWS rows, in bytes: columns of 64 elements follow each other, and
// pieces change places as copies of boxes leave them.
template <int ROWS> __device__ inline int swizzled(int r, int piece) { return piece / 8 * ROWS * 128 + r * 128 + (piece ^ r) % 8 * 16; }

// load_tile begins to copy the queries of an item, by THREADS threads, as the first operand of products.
template <class T, int DIM, int ROWS, int THREADS> __device__ inline void load_tile(unsigned char *to, const void *q, const Task &task, const fkv_attend_args &args) {
    constexpr int PIECES = DIM / 8;
    for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
        const int r = i / PIECES, piece = i % PIECES;
        const Row row = task.row(r);
        const T *from = static_cast<const T *>(q) + row.token() * args.q_stride + int64_t(row.head) * DIM;
        copy_async<16>(to + swizzled<ROWS>(r, piece), from + piece * 8, r < int(task.item.rows));
    }
    copy_commit();
}

// complete_scores makes scores of a lane's products with keys [begin, begin+2*S) of a span, for rows row and row+8. Its loop is not
// unrolled: few tiles need it, and registers change places instead of being indexed.
template <int S> __device__ inline void complete_scores(float (&s)[S], const Scoring &scoring, const Lookout &lookout, int row, const Span &span, int begin, int lane) {
#pragma unroll 1
    for (int n = 0; n < S / 4; n++) {
        float done[4];
#pragma unroll 1
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float product = half == 0 ? s[e] : s[2 + e];
                const float score = lookout.score(product, scoring, row + half * 8, span, begin + n * 8 + lane % 4 * 2 + e);
                if (half == 0) done[e] = score;
                done[2 + e] = score;
            }
        }
#pragma unroll
        for (int i = 0; i < S - 4; i++) s[i] = s[i + 4];
#pragma unroll
        for (int e = 0; e < 4; e++) s[S - 4 + e] = done[e];
    }
}

// highest is the highest of top and the scores of a row, of which its four lanes have a part each; half says which of a lane's rows.
template <int S> __device__ inline float highest(const float (&s)[S], int half, float top) {
#pragma unroll
    for (int n = 0; n < S / 4; n++) top = fmaxf(top, fmaxf(s[n * 4 + 2 * half], s[n * 4 + 2 * half + 1]));
    top = fmaxf(top, __shfl_xor_sync(FULL, top, 1));
    return fmaxf(top, __shfl_xor_sync(FULL, top, 2));
}

// weigh_row makes weights of a row's scores under top m, and returns by how much what was added up under the one before shrinks.
template <int S> __device__ inline float weigh_row(float (&s)[S], int half, float m, float &top, float &sum, const Scoring &scoring) {
    const float shrink = scoring.weight(top, m);
    float total = sum * shrink;
#pragma unroll
    for (int n = 0; n < S / 4; n++) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; e++) {
            s[n * 4 + e] = scoring.weight(s[n * 4 + e], m);
            total += s[n * 4 + e];
        }
    }
    top = m, sum = total;
    return shrink;
}

// pack_weights makes weights the first operand of products with values.
template <class T, int S> __device__ inline void pack_weights(uint32_t (&p)[S / 8][4], const float (&s)[S]) {
#pragma unroll
    for (int k = 0; k < S / 8; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) p[k][i] = pack<T>(s[k * 8 + 2 * i], s[k * 8 + 2 * i + 1]);
    }
}

// finish_rows writes columns [column, column+2*O) of the rows that a lane has of a strip, which begins at row from.
template <class T, int O> __device__ inline void finish_rows(const float (&o)[O], const float (&top)[2], const float (&sum)[2], const Output<T> &out, const Scoring &scoring,
                                                             int from, int column, int lane) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t r = from + lane / 4 + half * 8;
        if (r >= out.task.item.rows) continue;
        Finish finish(top[half], sum[half], scoring.natural, out.sink(r));
        if (column == 0 && lane % 4 == 0) out.lse(r, finish.lse);
        Line<T> line = out.line(r);
#pragma unroll
        for (int n = 0; n < O / 4; n++) {
            float pair[2] = {o[n * 4 + 2 * half] * finish.factor, o[n * 4 + 2 * half + 1] * finish.factor};
            line.put(column + n * 8 + lane % 4 * 2, pair);
        }
    }
}

} // namespace fkv

// Grid and operands are as in attend.cuh, and the planes of keys and values as tensor maps.
#define FKV_WIDE_KERNEL(name, ...)                                                                                    \
    FKV_KERNEL_OF(name, (__VA_ARGS__::THREADS), (__VA_ARGS__::SHARED), (__VA_ARGS__::BLOCKS), const void *q,          \
                  const void *k, const void *v, const uint32_t *table, const uint32_t *context_lens,                  \
                  const uint32_t *query_offsets, const uint32_t *views, const uint32_t *tree, const uint32_t *work,   \
                  const float *alibi, const float *sinks, void *out, float *lse, float *partial, float *partial_lse,  \
                  float *final_lse, float *mass, const uint32_t *k_scales, const uint32_t *v_scales,                  \
                  fkv_attend_args args, const __grid_constant__ fkv::TensorMaps maps) {                               \
        __VA_ARGS__::run({q, k, v, table, context_lens, query_offsets, views, tree, work, alibi, sinks, out, lse,     \
                          partial, partial_lse, final_lse, mass, k_scales, v_scales}, args, maps);                    \
    }
