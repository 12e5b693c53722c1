// Attention on tensor cores: a warp and its 16 rows.
#pragma once

#include "outlook.cuh"
#include "output.cuh"
#include "ring.cuh"

namespace fkv {

constexpr int STRIP_ROWS = 16;  // of a matrix instruction

// QUERY_STRIDE is the elements from a row of queries in shared memory to the next: 16 bytes more than a row, so that
// matrix loads of 8 rows hit all banks.
template <int KDIM> constexpr int QUERY_STRIDE = KDIM + 8;

// Queries are 16 rows [KDIM] of T in shared memory and, with HELD, in registers. With PARTS 2 they are every other
// 16 elements, of part 0 or 1.
template <class T, int KDIM, bool HELD, int PARTS = 1> struct Queries {
    static_assert(PARTS == 1 || PARTS == 2, "parts differ in a bit of a piece's number");
    static constexpr int STEPS = KDIM / 16 / PARTS;
    using Place = Rows<KDIM, true>;

    const T *rows;
    int part;
    uint32_t held[HELD ? STEPS : 1][4];

    __device__ Queries(const T *from, int lane, int of = 0)
        : rows(from + lane % 16 * QUERY_STRIDE<KDIM> + of * 16 + lane / 16 * 8), part(PARTS > 1 ? of : 0) {
#pragma unroll
        for (int d = 0; d < STEPS; d++) {
            if (HELD) load_matrices(held[d], rows + d * PARTS * 16);
        }
    }

    // multiply sets s to the products with KEYS keys [KEYS, KDIM]: s[n] is the fragment
    // of 16 rows and keys [8n, 8n+8). What is multiplied is loaded a few loads before: for 9.0 the compiler
    // leaves loads where they stand.
    template <int KEYS> __device__ void multiply(float (&s)[KEYS / 8][4], const T *keys, int lane) const {
        const T *mine = keys + (lane % 8 + lane / 16 * 8) * KDIM;
        const int piece = lane / 8 % 2 ^ Place::turn(lane % 8) ^ 2 * part;
        constexpr int COLUMNS = KEYS / 16, ALL = STEPS * COLUMNS, AHEAD = COLUMNS; // loads under way
        uint32_t a[2][4], b[AHEAD + 1][4];
        auto load = [&](int i) {
            if (i >= ALL) return;
            if (!HELD && i % COLUMNS == 0) load_matrices(a[i / COLUMNS % 2], rows + i / COLUMNS * PARTS * 16);
            load_matrices(b[i % (AHEAD + 1)], mine + i % COLUMNS * 16 * KDIM + Place::column(i / COLUMNS * PARTS * 2, piece));
        };
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) s[n][e] = 0;
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) load(i);
#pragma unroll
        for (int d = 0; d < STEPS; d++) {
#pragma unroll
            for (int n = 0; n < COLUMNS; n++) {
                const int i = d * COLUMNS + n, at = i % (AHEAD + 1);
                load(i + AHEAD);
                uint32_t q[4];
#pragma unroll
                for (int e = 0; e < 4; e++) q[e] = HELD ? held[HELD ? d : 0][e] : a[d % 2][e];
                mma(s[2 * n], q, b[at][0], b[at][1], T());
                mma(s[2 * n + 1], q, b[at][2], b[at][3], T());
            }
        }
    }
};

// load_queries begins to copy the queries of an item to ROWS rows of shared memory, stride elements apart, with
// zeros behind the last, as a group of copies; all threads of the block take part.
template <int KDIM, int ROWS, class T>
__device__ inline void load_queries(T *to, int stride, const void *q, const Task &task, const fkv_attend_args &args) {
    constexpr int N = Vec<T>::N, VECTORS = KDIM / N;
    for (int i = threadIdx.x; i < ROWS * VECTORS; i += blockDim.x) {
        const int r = i / VECTORS, at = i % VECTORS * N;
        const Row row = task.row(r);
        const T *from = static_cast<const T *>(q) + row.token() * args.q_stride + int64_t(row.head) * KDIM;
        copy_async<16>(to + r * stride + at, from + at, r < int(task.item.rows));
    }
    copy_commit();
}

// Weights is the softmax of a warp's 16 rows and what they have gathered of values [KEYS, VDIM], in rows [DIM]. Lane l has rows
// l/4 and l/4+8, of each fragment elements 0, 1 and 2, 3: columns 2(l%4) and the next.
template <class T, int VDIM, int KEYS, int DIM = VDIM> struct Weights {
    using Place = Rows<DIM, true>;

    float o[VDIM / 8][4];
    float top[2] = {NEG_INF, NEG_INF}, sum[2] = {0, 0};

    __device__ Weights() {
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) {
#pragma unroll
            for (int e = 0; e < 4; e++) o[n][e] = 0;
        }
    }

    // none reports whether no row sees a key of the tile from number begin of the span on. row is the first of the
    // warp's in the item.
    __device__ static bool none(const Lookout &lookout, int row, const Span &span, int begin) {
        return lookout.extent(row).none(span.at(begin), span.at(min(begin + KEYS, span.count) - 1));
    }

    // weigh makes weights of the products with a tile's keys, which are number begin of the span and on, and
    // shrinks what was added up under a smaller top.
    __device__ void weigh(float (&s)[KEYS / 8][4], const Scoring &scoring, const Lookout &lookout, int row, const Span &span,
                          int begin, int lane) {
        if (!scoring.plain || begin + KEYS > span.count || !lookout.extent(row).all(span.at(begin), span.at(begin + KEYS - 1))) {
            complete(s, scoring, lookout, row + lane / 4, span, begin, lane);
        }
        float high[2], shrink[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float m = top[half];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) m = fmaxf(m, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
            m = fmaxf(m, __shfl_xor_sync(FULL, m, 1));
            m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
            high[half] = m;
            shrink[half] = scoring.weight(top[half], m);
        }
        if (__any_sync(FULL, high[0] != top[0] || high[1] != top[1])) {
#pragma unroll
            for (int n = 0; n < VDIM / 8; n++) {
#pragma unroll
                for (int e = 0; e < 4; e++) o[n][e] *= shrink[e / 2];
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            top[half] = high[half];
            sum[half] *= shrink[half];
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; e++) {
                    s[n][e] = scoring.weight(s[n][e], top[half]);
                    sum[half] += s[n][e];
                }
            }
        }
    }

    // mix adds the tile's values by their weights, rounded to T. A row
    // that does not see a key adds 0 times its value, so an infinite one shows there too.
    __device__ void mix(const float (&s)[KEYS / 8][4], const T *values, int lane) {
        constexpr int COLUMNS = VDIM / 16, STEPS = KEYS / 16 * COLUMNS, AHEAD = 2; // loads under way, as in multiply
        const T *mine = values + lane % 16 * DIM;
        const int piece = lane / 16 ^ Place::turn(lane % 16);
        uint32_t b[AHEAD + 1][4];
        auto load = [&](int i) {
            if (i < STEPS) load_transposed(b[i % (AHEAD + 1)], mine + i / COLUMNS * 16 * DIM + Place::column(i % COLUMNS * 2, piece));
        };
#pragma unroll
        for (int i = 0; i < AHEAD; i++) load(i);
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            uint32_t a[4] = {pack<T>(s[2 * k][0], s[2 * k][1]), pack<T>(s[2 * k][2], s[2 * k][3]),
                             pack<T>(s[2 * k + 1][0], s[2 * k + 1][1]), pack<T>(s[2 * k + 1][2], s[2 * k + 1][3])};
#pragma unroll
            for (int n = 0; n < COLUMNS; n++) {
                const int i = k * COLUMNS + n, at = i % (AHEAD + 1);
                load(i + AHEAD);
                mma(o[2 * n], a, b[at][0], b[at][1], T());
                mma(o[2 * n + 1], a, b[at][2], b[at][3], T());
            }
        }
    }

    // put writes to a row what half 0 or 1 has gathered: row lane/4, or that and 8.
    __device__ void put(float *row, int half, int lane) const {
#pragma unroll
        for (int n = 0; n < VDIM / 8; n++) {
            const float pair[2] = {o[n][2 * half], o[n][2 * half + 1]};
            store(row + n * 8 + lane % 4 * 2, pair);
        }
    }

    // total adds up the sums, of which each lane has its columns'.
    __device__ void total() {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            sum[half] += __shfl_xor_sync(FULL, sum[half], 1);
            sum[half] += __shfl_xor_sync(FULL, sum[half], 2);
        }
    }

  private:
    // complete makes scores of products, -inf where a row does not see the key. It turns
    // the registers past one place, 8 keys at a time, so that its code is there once; few
    // tiles need it. What rows see is read again each time: it takes no registers meanwhile.
    __device__ void complete(float (&s)[KEYS / 8][4], const Scoring &scoring, const Lookout &lookout, int row, const Span &span, int begin,
                             int lane) const {
#pragma unroll 1
        for (int n = 0; n < KEYS / 8; n++) {
            float done[4];
#pragma unroll 1
            for (int half = 0; half < 2; half++) { // one row at a time
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const float product = half == 0 ? s[0][e] : s[0][2 + e];
                    const float score = lookout.score(product, scoring, row + half * 8, span, begin + n * 8 + lane % 4 * 2 + e);
                    if (half == 0) done[e] = score;
                    done[2 + e] = score;
                }
            }
#pragma unroll
            for (int e = 0; e < 4; e++) {
#pragma unroll
                for (int m = 0; m < KEYS / 8 - 1; m++) s[m][e] = s[m + 1][e];
                s[KEYS / 8 - 1][e] = done[e];
            }
        }
    }
};

// Strip is a warp with 16 rows of queries of its own, with HELD in registers.
template <class T, int KDIM, int VDIM, int KEYS, bool HELD> struct Strip : Weights<T, VDIM, KEYS> {
    using Base = Weights<T, VDIM, KEYS>;

    Queries<T, KDIM, HELD> queries;

    __device__ Strip(const T *rows, int lane) : queries(rows, lane) {}

    // weigh makes weights of a tile's keys. It returns false, and there is nothing to mix, where no row sees any of them.
    __device__ bool weigh(float (&s)[KEYS / 8][4], const T *keys, const Scoring &scoring, const Lookout &lookout, int row,
                          const Span &span, int begin, int lane) {
        if (Base::none(lookout, row, span, begin)) return false;
        queries.template multiply<KEYS>(s, keys, lane);
        Base::weigh(s, scoring, lookout, row, span, begin, lane);
        return true;
    }
};

} // namespace fkv
