// Attention on simdgroup matrices: a simdgroup and its 8 rows.
#pragma once

#include "outlook.h"
#include "output.h"
#include "tile.h"

namespace fkv {

constant constexpr int STRIP_ROWS = 8; // of a matrix
constant constexpr int STRIP_PAD = 8;  // elements behind a row of 16-bit elements, 16 bytes

// thread_elements, which Apple does not document, is used of matrices that are not const
// alone, so a method that reads its own is not const.
template <class T> using Matrix = simdgroup_matrix<T, 8, 8>;

// A lane has two elements of a matrix side by side: those of row lane_row from column
// lane_column on. Lanes that differ in bits 0 and 3 have one row, the others one column.
inline int lane_row(int lane) { return (lane / 4 & 4) + lane / 2 % 4; }
inline int lane_column(int lane) { return (lane / 4 & 2) * 2 + lane % 2 * 2; }

// row_sum and row_max are over a row's lanes.
inline float row_sum(float x) {
    x += simd_shuffle_xor(x, 1);
    return x + simd_shuffle_xor(x, 8);
}
inline float row_max(float x) {
    x = max(x, simd_shuffle_xor(x, 1));
    return max(x, simd_shuffle_xor(x, 8));
}

// Queries are 8 rows of an item, from its row from on, in registers: KDIM of their elements, from element dim
// on. Behind the item's last they repeat that one: what comes of it nobody writes.
template <class T, int KDIM> struct Queries {
    Matrix<T> at[KDIM / 8];

    Queries(const thread Task &task, int from, int dim, int lane) {
        const device T *row = query<T>(task.call, task.row(from + lane_row(lane))) + dim + lane_column(lane);
#pragma unroll
        for (int d = 0; d < KDIM / 8; d++) {
            const vec<T, 2> pair = *reinterpret_cast<const device vec<T, 2> *>(row + d * 8);
            at[d].thread_elements()[0] = pair.x;
            at[d].thread_elements()[1] = pair.y;
        }
    }

    // multiply sets s to the products with N keys, stride elements apart: s[n] is the
    // matrix of the rows and keys [8n, 8n+8).
    template <int N> void multiply(thread Matrix<float> (&s)[N / 8], const threadgroup T *keys, int stride) const {
#pragma unroll
        for (int n = 0; n < N / 8; n++) s[n] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
#pragma unroll
        for (int d = 0; d < KDIM / 8; d++) {
#pragma unroll
            for (int n = 0; n < N / 8; n++) {
                Matrix<T> b;
                simdgroup_load(b, keys + n * 8 * stride + d * 8, stride, ulong2(0), true);
                simdgroup_multiply_accumulate(s[n], at[d], b, s[n]);
            }
        }
    }
};

// Strip is the softmax of 8 rows over the keys that a simdgroup has met, KEYS of every
// tile, and what the rows have gathered of VDIM elements of their values.
template <class T, int VDIM, int KEYS> struct Strip {
    enum : int { FLOATS = VDIM / 8 * 2 + 2 }; // of a lane, for join
    static_assert(KEYS <= 32, "a bit for each key");

    Matrix<float> o[VDIM / 8];
    Lookout lookout; // of the lane's row
    Extent extent;   // of all 8
    float top, sum;  // of the lane's row; the sum is of its columns until total
    int lane;

    // The rows are [from, from+8) of the item.
    Strip(const thread Task &task, int from, int lane_at)
        : lookout(task, from + lane_row(lane_at)),
          extent(Extent::around(lookout.row, uint32_t(from + lane_row(lane_at)) < task.item.rows, task)), top(NEG_INF),
          sum(0), lane(lane_at) {
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) o[n] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }

    // none reports whether no row sees a key of those from number begin of the span on.
    bool none(Span span, int begin) const {
        return begin >= span.count || extent.none(span.at(begin), span.at(min(begin + KEYS, span.count) - 1));
    }

    // weigh makes weights of products with keys, which are number begin of the span and on, and shrinks
    // what was added up under a smaller top. It returns the keys that some row sees, a bit each.
    uint weigh(thread Matrix<float> (&s)[KEYS / 8], Scoring scoring, Span span, int begin) {
        uint seen = ALL_SEEN;
        if (!scoring.plain || begin + KEYS > span.count || !extent.all(span.at(begin), span.at(begin + KEYS - 1))) {
            seen = complete(s, scoring, span, begin);
        }
        float high = top;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) high = max(high, max(s[n].thread_elements()[0], s[n].thread_elements()[1]));
        high = row_max(high);
        if (simd_any(high != top)) shrink(scoring.weight(top, high));
        top = high;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const float weight = scoring.weight(s[n].thread_elements()[e], top);
                s[n].thread_elements()[e] = weight;
                sum += weight;
            }
        }
        return seen;
    }

    // mix adds the keys' values by their weights, rounded to T. A row that does not see a
    // key that another one sees adds 0 times its value, so an infinite one shows there too.
    void mix(thread Matrix<float> (&s)[KEYS / 8], const threadgroup T *values, int stride, uint seen) {
#pragma unroll
        for (int k = 0; k < KEYS / 8; k++) {
            Matrix<T> a;
            a.thread_elements()[0] = from_float<T>(s[k].thread_elements()[0]);
            a.thread_elements()[1] = from_float<T>(s[k].thread_elements()[1]);
            const bool kept = !asked() || (seen >> (k * 8 + lane_row(lane)) & 1) != 0; // the key of the lane's values
#pragma unroll
            for (int n = 0; n < VDIM / 8; n++) {
                Matrix<T> b;
                simdgroup_load(b, values + k * 8 * stride + n * 8, stride);
                if (asked()) {
                    b.thread_elements()[0] = kept ? b.thread_elements()[0] : T(0);
                    b.thread_elements()[1] = kept ? b.thread_elements()[1] : T(0);
                }
                simdgroup_multiply_accumulate(o[n], a, b, o[n]);
            }
        }
    }

    // total adds up the sums of a row's lanes.
    void total() { sum = row_sum(sum); }

    // give and take hand the state from one simdgroup to another, see join.
    void give(threadgroup float *to) {
        to[0] = top;
        to[LANES] = sum;
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) {
            to[(2 + 2 * n) * LANES] = o[n].thread_elements()[0];
            to[(3 + 2 * n) * LANES] = o[n].thread_elements()[1];
        }
    }

    void take(const threadgroup float *from, Scoring scoring) {
        const float high = max(top, from[0]), share = scoring.weight(from[0], high);
        shrink(scoring.weight(top, high));
        top = high;
        sum += from[LANES] * share;
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) {
            o[n].thread_elements()[0] += from[(2 + 2 * n) * LANES] * share;
            o[n].thread_elements()[1] += from[(3 + 2 * n) * LANES] * share;
        }
    }

    // write writes the rows' elements from dim on; the first row is row from of the item.
    void write(Output<T> out, Scoring scoring, int from, int dim) {
        const uint32_t r = from + lane_row(lane);
        if (r >= out.task.item.rows) return;
        const Finish finish(top, sum, scoring.natural, out.sink(r));
        if (dim == 0 && lane_column(lane) == 0) out.lse(r, finish.lse);
        const Line<T> line = out.line(r);
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) {
            const float2 pair = {o[n].thread_elements()[0], o[n].thread_elements()[1]};
            line.put(dim + n * 8 + lane_column(lane), pair * finish.factor);
        }
    }

  private:
    // complete makes scores of products, -inf where a row does not see the key, and returns the keys that
    // some row sees; without a need, all.
    uint complete(thread Matrix<float> (&s)[KEYS / 8], Scoring scoring, Span span, int begin) const {
        uint seen = 0;
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int i = n * 8 + lane_column(lane) + e;
                const float score = lookout.score(s[n].thread_elements()[e], scoring, span, begin + i);
                s[n].thread_elements()[e] = score;
                seen |= uint(score != NEG_INF) << i;
            }
        }
        if (!asked()) return ALL_SEEN;
        for (ushort apart = 1; apart < LANES; apart *= 2) seen |= simd_shuffle_xor(seen, apart);
        return seen;
    }

    void shrink(float factor) {
        sum *= factor;
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) {
            o[n].thread_elements()[0] *= factor;
            o[n].thread_elements()[1] *= factor;
        }
    }
};

// Walk attends for items of at most 8*STRIPS rows with SIMDGROUPS simdgroups. All share
// tiles of KEYS keys; simdgroups of the same rows divide a tile between them, and their
// softmaxes are added up at the end.
template <class T, class S, int KDIM, int VDIM, int KEYS, int SIMDGROUPS, int STRIPS> struct Walk {
    enum : int { PARTS = SIMDGROUPS / STRIPS, OWN = KEYS / PARTS };
    using Cached = Plane<T, S>;
    using Tiles = Stream<Cached, KDIM, VDIM, KEYS, SIMDGROUPS * int(LANES), STRIP_PAD>;
    using Rows = Strip<T, VDIM, OWN>;
    enum : int { JOINED = joined<PARTS, STRIPS, Rows>(), TILES = Tiles::BYTES };
    enum : int { SHARED = int(JOINED) > int(TILES) ? int(JOINED) : int(TILES) };
    static_assert(OWN % 8 == 0, "whole matrices for every simdgroup");
    static_assert(int(SHARED) <= 32 << 10, "what a threadgroup may have");

    static void run(Call call, Results results, Task task, Here here, threadgroup void *shared) {
        const int set = here.simdgroup % STRIPS, part = here.simdgroup / STRIPS, own = part * OWN;
        const Span span = span_of(task, here.lane);
        const Scoring scoring(*call.args);
        const Pages pages(call.table, *call.args, task.seq, task.kv_head);
        const Cached keys_from(call.keys(task.kv_head), KDIM), values_from(call.values(task.kv_head), VDIM);
        Tiles tiles(shared, keys_from, values_from, pages, span, here.index);
        const Queries<T, KDIM> queries(task, set * STRIP_ROWS, 0, here.lane);
        Rows rows(task, set * STRIP_ROWS, here.lane);
        for (int begin = 0; begin < span.count; begin += KEYS) {
            Matrix<float> s[OWN / 8];
            uint seen = 0;
            const threadgroup T *keys = tiles.keys() + own * Tiles::KEY_STRIDE;
            const bool met = !rows.none(span, begin + own);
            if (met) {
                queries.template multiply<OWN>(s, keys, Tiles::KEY_STRIDE);
                seen = rows.weigh(s, scoring, span, begin + own);
            }
            const threadgroup T *values = tiles.values() + own * Tiles::VALUE_STRIDE;
            if (met) rows.mix(s, values, Tiles::VALUE_STRIDE, seen);
        }
        rows.total();
        join<PARTS, STRIPS>(rows, scoring, shared, part, set, here.lane);
        if (part == 0) rows.write(Output<T>{call, results, task}, scoring, set * STRIP_ROWS, 0);
    }
};

} // namespace fkv
