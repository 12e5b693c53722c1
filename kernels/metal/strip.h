// Attention on simdgroup matrices: a simdgroup and its 8 rows.
#pragma once

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

// Queries are 8 rows of an item, from its row from on, in registers. Behind the item's
// last they repeat that one: what comes of it nobody writes.
template <class T, int KDIM> struct Queries {
    Matrix<T> at[KDIM / 8];

    Queries(const thread Call &call, const thread Task &task, int from, int lane) {
        const device T *row = query<T>(call, task.row(from + lane_row(lane))) + lane_column(lane);
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
// tile, and what the rows have gathered.
template <class T, int KDIM, int VDIM, int KEYS> struct Strip {
    enum : int { FLOATS = VDIM / 8 * 2 + 2 }; // of a lane, for join

    Queries<T, KDIM> queries;
    Matrix<float> o[VDIM / 8];
    float top, sum, slope; // of the lane's row; the sum is of its columns until total
    int position, lane;
    int first, final; // positions of the first and the last of the strip's rows
    bool used;        // is there any

    // The strip has rows [from, from+8) of the item.
    Strip(const thread Call &call, const thread Task &task, int from, int lane_at)
        : queries(call, task, from, lane_at), top(NEG_INF), sum(0), lane(lane_at) {
        const int rows = int(task.item.rows);
        const Row row = task.row(from + lane_row(lane));
        used = from < rows;
        first = task.lowest(from);
        final = task.highest(min(from + STRIP_ROWS, rows) - 1);
        position = row.position;
        slope = with_alibi ? call.alibi[row.head] : 0;
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) o[n] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
    }

    // weigh makes weights of keys, which are number begin of the span and on, and shrinks
    // what was added up under a smaller top. It returns false, and there is nothing to
    // mix, where no row of the strip sees any of them.
    bool weigh(thread Matrix<float> (&s)[KEYS / 8], const threadgroup T *keys, int stride, Scoring scoring,
               Sight sight, Span span, int begin) {
        if (!used || begin >= span.count) return false;
        const int oldest = span.at(begin), newest = span.at(min(begin + KEYS, span.count) - 1);
        if (sight.none(first, final, oldest, newest)) return false;
        queries.template multiply<KEYS>(s, keys, stride);
        if (!scoring.plain || begin + KEYS > span.count || !sight.all(first, final, oldest, newest)) {
            complete(s, scoring, sight, span, begin);
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
        return true;
    }

    // mix adds the keys' values by their weights, rounded to T. A row that does not see a
    // key adds 0 times its value, so an infinite one shows there too.
    void mix(thread Matrix<float> (&s)[KEYS / 8], const threadgroup T *values, int stride) {
#pragma unroll
        for (int k = 0; k < KEYS / 8; k++) {
            Matrix<T> a;
            a.thread_elements()[0] = from_float<T>(s[k].thread_elements()[0]);
            a.thread_elements()[1] = from_float<T>(s[k].thread_elements()[1]);
#pragma unroll
            for (int n = 0; n < VDIM / 8; n++) {
                Matrix<T> b;
                simdgroup_load(b, values + k * 8 * stride + n * 8, stride);
                simdgroup_multiply_accumulate(o[n], a, b, o[n]);
            }
        }
    }

    // total adds up the sums of a row's lanes.
    void total() { sum = row_sum(sum); }

    // give and take hand the strip's state from one simdgroup to another, see join.
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

    // write writes the rows, the first of which is row from of the item.
    void write(Output<T> out, Scoring scoring, int from) {
        const uint32_t r = from + lane_row(lane);
        if (r >= out.task.item.rows) return;
        const Finish finish(top, sum, scoring.natural, out.sink(r));
        if (lane_column(lane) == 0) out.lse(r, finish.lse);
        const Line<T> line = out.line(r);
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) {
            const float2 pair = {o[n].thread_elements()[0], o[n].thread_elements()[1]};
            line.put(n * 8 + lane_column(lane), pair * finish.factor);
        }
    }

  private:
    // complete makes scores of products, -inf where a row does not see the key.
    void complete(thread Matrix<float> (&s)[KEYS / 8], Scoring scoring, Sight sight, Span span, int begin) const {
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int i = begin + n * 8 + lane_column(lane) + e, key = span.at(i);
                const bool seen = (i < span.count) & sight.sees(position, key);
                const float score = scoring.score(s[n].thread_elements()[e], slope, key - position);
                s[n].thread_elements()[e] = seen ? score : NEG_INF;
            }
        }
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
    using Rows = Strip<T, KDIM, VDIM, OWN>;
    enum : int { JOINED = joined<PARTS, STRIPS, Rows>(), TILES = Tiles::BYTES };
    enum : int { SHARED = int(JOINED) > int(TILES) ? int(JOINED) : int(TILES) };
    static_assert(OWN % 8 == 0, "whole matrices for every simdgroup");
    static_assert(int(SHARED) <= 32 << 10, "what a threadgroup may have");

    static void run(Call call, Results results, Task task, Here here, threadgroup void *shared) {
        const int set = here.simdgroup % STRIPS, part = here.simdgroup / STRIPS, own = part * OWN;
        const Span span = task.span();
        const Scoring scoring(*call.args);
        const Pages pages(call.table, *call.args, task.seq, task.kv_head);
        const Cached keys_from(call.keys(task.kv_head), KDIM), values_from(call.values(task.kv_head), VDIM);
        Tiles tiles(shared, keys_from, values_from, pages, span, here.index);
        Rows rows(call, task, set * STRIP_ROWS, here.lane);
        for (int begin = 0; begin < span.count; begin += KEYS) {
            Matrix<float> s[OWN / 8];
            const threadgroup T *keys = tiles.keys() + own * Tiles::KEY_STRIDE;
            const bool seen = rows.weigh(s, keys, Tiles::KEY_STRIDE, scoring, task.sight, span, begin + own);
            const threadgroup T *values = tiles.values() + own * Tiles::VALUE_STRIDE;
            if (seen) rows.mix(s, values, Tiles::VALUE_STRIDE);
        }
        rows.total();
        join<PARTS, STRIPS>(rows, scoring, shared, part, set, here.lane);
        if (part == 0) rows.write(Output<T>{call, results, task}, scoring, set * STRIP_ROWS);
    }
};

} // namespace fkv
