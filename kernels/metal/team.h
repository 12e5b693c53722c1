// Attention by vector arithmetic in f32: rows four at a time, or two.
#pragma once

#include "outlook.h"
#include "output.h"
#include "run.h"

namespace fkv {

template <class Cached, int DIM, int SIZE, int EACH> struct InCache;

// Team is how lanes share the work of a dot product: SIZE of them hold a row [DIM] by
// vectors of N elements, TEAMS rows a simdgroup. Lane i of a team holds vectors i,
// i+SIZE, … of them, of which the last may be missing.
template <int N, int DIM, int SIZE> struct Team {
    enum : int { TEAMS = int(LANES) / SIZE, VECTORS = (DIM / N + SIZE - 1) / SIZE, HELD = VECTORS * N };

    // dim is where vector j of a lane begins, DIM or more for a missing one.
    static int dim(int j, int lane) { return (j * SIZE + lane) * N; }
    static bool has(int j, int lane) { return DIM % (SIZE * N) == 0 || dim(j, lane) < DIM; }

    // load reads a lane's elements of row k of a source, 16 bytes at a time. For a missing
    // vector it takes zeros, and reads something all the same: with a branch in between, loads
    // would wait for each other.
    template <class X, class Source> static void load(thread X (&x)[HELD], const thread Source &rows, int k, int lane) {
        using T = typename Source::Type;
        enum : int { PER = 16 / sizeof(T) };
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
            const int at = has(j, lane) ? dim(j, lane) : 0;
            T elements[N];
#pragma unroll
            for (int i = 0; i < N; i += PER) {
                const uint4 bits = rows.bits(k, at + i);
                unpack(has(j, lane) ? bits : uint4(0), elements + i);
            }
#pragma unroll
            for (int i = 0; i < N; i++) x[j * N + i] = X(elements[i]);
        }
    }

    template <class Cached, int EACH>
    static void load(thread float (&x)[HELD], const thread InCache<Cached, DIM, SIZE, EACH> &rows, int k, int lane) {
#pragma unroll
        for (int j = 0; j < VECTORS; j++) rows.plane.template numbers<N>(x + j * N, rows.held[k][j], dim(j, lane) / N);
    }
};

// Sources of rows. InCache is rows of a plane of the cache: of EACH keys of a team, of which
// the first count are keys of the span. What a lane has of them is loaded when it is made,
// for what becomes of codes takes branches. Missing rows are zeros as missing vectors are.
template <class Cached, int DIM, int SIZE, int EACH> struct InCache {
    using In = Team<Cached::N, DIM, SIZE>;

    Cached plane;
    typename Cached::template Held<Cached::N> held[EACH][In::VECTORS];

    InCache(Cached from, const thread Pages &pages, const thread int64_t (&rows)[EACH], int count, int lane)
        : plane(from) {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
#pragma unroll
            for (int j = 0; j < In::VECTORS; j++) {
                const bool there = In::has(j, lane);
                const int i = there ? In::dim(j, lane) / Cached::N : 0;
                held[k][j] = plane.template load<DIM, Cached::N>(pages, rows[k], i);
                held[k][j].keep(there && k < count);
            }
        }
    }
};

// InTile is rows of a tile, STRIDE elements apart, of which a team has every TEAMS-th.
template <class T, int STRIDE, int TEAMS> struct InTile {
    using Type = T;

    const threadgroup T *first;

    uint4 bits(int k, int dim) const {
        return *reinterpret_cast<const threadgroup uint4 *>(first + k * TEAMS * STRIDE + dim);
    }
};

// InCall is one row: a query.
template <class T> struct InCall {
    using Type = T;

    const device T *query;

    uint4 bits(int, int dim) const { return *reinterpret_cast<const device uint4 *>(query + dim); }
};

// team_size leaves a lane 8 elements of a row.
constexpr int team_size(int dim) { return dim > 128 ? 32 : dim > 64 ? 16 : 8; }

// Halves is the step of a sum between lanes APART for N numbers of each, and those after
// it: two lanes split what both have, each sends the half that the other keeps; of a last
// number both keep the sum.
template <int N, int APART> struct Halves {
    enum : int { KEPT = N > 1 ? N / 2 : 1 };

    static void add(thread float *share, int lane) {
        const bool high = lane & APART;
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            const float other = share[i + N - KEPT];
            const float sent = N == 1 || !high ? other : share[i], kept = high ? other : share[i];
            share[i] = kept + simd_shuffle_xor(sent, APART);
        }
        Halves<KEPT, APART / 2>::add(share, lane);
    }
};
template <int N> struct Halves<N, 0> {
    static void add(thread float *, int) {}
};

// Scores is ROWS x EACH numbers of a team of SIZE lanes, row by row, HELD of them in a
// lane: a row lies in SPREAD lanes side by side. Where there are more lanes than numbers,
// REPEATED lanes hold the same. So what is done with a score is done once, not by every
// lane.
template <int ROWS, int EACH, int SIZE> struct Scores {
    enum : int { COUNT = ROWS * EACH, SPREAD = SIZE / ROWS };
    enum : int { HELD = COUNT > SIZE ? COUNT / SIZE : 1, REPEATED = COUNT < SIZE ? SIZE / COUNT : 1 };
    static_assert(int(SPREAD) > 0 && int(HELD) <= EACH, "one row a lane");

    float at[HELD];

    Scores() thread = default;

    // A team's lanes have a share of each number: their sums are the scores.
    Scores(thread float (&share)[COUNT], int lane) {
        Halves<COUNT, SIZE / 2>::add(share, lane);
#pragma unroll
        for (int i = 0; i < HELD; i++) at[i] = share[i];
    }

    // column is where in its row at[i] is.
    static int column(int i, int lane) { return lane % SPREAD * EACH / SPREAD + i; }

    // of is number i of row r, for all lanes of the team.
    float of(int r, int i, int lane) const {
        return simd_shuffle(at[i % HELD], ushort(lane / SIZE * SIZE + (r * EACH + i) * REPEATED / HELD));
    }
};

// InRegisters is what a query of T is held as: Apple's GPUs multiply a half as it is, two of which fill a
// register; a bfloat they would convert each time.
template <class T> struct InRegisters { using Type = float; };
template <> struct InRegisters<half> { using Type = half; };

// together is how many rows a team has: 4, of which long keys leave registers for 2.
constexpr int together(int kdim) { return latent(kdim) ? 2 : 4; }

// Few is a few rows of an item as a team sees them, and products with EACH keys of a tile.
template <class T, int N, int DIM, int EACH> struct Few {
    enum : int { ROWS = together(DIM), SIZE = team_size(DIM), KEYS = EACH * int(LANES) / SIZE };
    using Keys = Team<N, DIM, SIZE>;
    using Products = Scores<ROWS, EACH, SIZE>;

    typename InRegisters<T>::Type q[ROWS][Keys::HELD];

    // The rows are those of the item from row from on; behind its last they repeat that one, and
    // what comes of it nobody writes.
    Few(const thread Task &task, int from, int lane) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            Keys::load(q[r], InCall<T>{query<T>(task.call, task.row(from + r))}, 0, lane % SIZE);
        }
    }

    // multiply takes key k of the team from row k of a source.
    template <class Source> Products multiply(const thread Source &keys, int lane) const {
        float s[ROWS * EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float x[Keys::HELD];
            Keys::load(x, keys, k, lane % SIZE);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                s[r * EACH + k] = 0;
#pragma unroll
                for (int i = 0; i < Keys::HELD; i++) s[r * EACH + k] += x[i] * to_float(q[r][i]);
            }
        }
        return {s, lane % SIZE};
    }
};

// Softmax is a few rows and what they have gathered. Every team has its own over the keys that
// it met, until total adds them up.
template <class T, int N, int KDIM, int VDIM, int EACH> struct Softmax {
    using Rows = Few<T, N, KDIM, EACH>;
    using Weights = typename Rows::Products;
    enum : int { R = Rows::ROWS, SIZE = Rows::SIZE, TEAMS = int(LANES) / SIZE, SPREAD = SIZE / R };
    using Values = Team<N, VDIM, SIZE>;
    enum : int { HELD = Values::HELD, FLOATS = R * HELD + 2 }; // FLOATS: of a lane, for join

    Rows rows;
    float o[R][HELD];
    Lookout lookout; // of the row whose scores this lane holds
    float top, sum;  // of it, too
    int lane;

    Softmax(const thread Task &task, int from, int lane_at)
        : rows(task, from, lane_at), lookout(task, from + lane_at % SIZE / SPREAD), top(NEG_INF), sum(0),
          lane(lane_at) {
#pragma unroll
        for (int r = 0; r < R; r++) {
#pragma unroll
            for (int i = 0; i < HELD; i++) o[r][i] = 0;
        }
    }

    // weigh turns products into weights, and shrinks what was added up under a smaller
    // top. The team's keys are number begin of the span and every TEAMS-th from there. It returns those
    // that some row sees, a bit each.
    uint weigh(thread Weights &s, Scoring scoring, Span span, int begin) {
        float high = top;
        uint seen = 0;
#pragma unroll
        for (int i = 0; i < Weights::HELD; i++) {
            const int k = Weights::column(i, lane % SIZE);
            s.at[i] = lookout.score(s.at[i], scoring, span, begin + k * TEAMS);
            high = max(high, s.at[i]);
            seen |= uint(s.at[i] != NEG_INF) << k;
        }
        for (ushort apart = SIZE / 2; asked() && apart > 0; apart /= 2) seen |= simd_shuffle_xor(seen, apart);
#pragma unroll
        for (int apart = SPREAD / 2; apart > 0; apart /= 2) high = max(high, simd_shuffle_xor(high, apart));
        if (simd_any(high != top)) shrink(scoring.weight(top, high));
        top = high;
#pragma unroll
        for (int i = 0; i < Weights::HELD; i++) {
            s.at[i] = scoring.weight(s.at[i], high);
            sum += s.at[i];
        }
        return seen;
    }

    // mix adds the keys' values by their weights, but for those that no row sees.
    template <class Source> void mix(const thread Weights &s, const thread Source &values, uint seen) {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float x[HELD];
            Values::load(x, values, k, lane % SIZE);
            const bool kept = !asked() || (seen >> k & 1) != 0;
#pragma unroll
            for (int i = 0; i < HELD; i++) x[i] = kept ? x[i] : 0;
#pragma unroll
            for (int r = 0; r < R; r++) {
                const float weight = s.of(r, k, lane);
#pragma unroll
                for (int i = 0; i < HELD; i++) o[r][i] += weight * x[i];
            }
        }
    }

    // give and take hand the state from one simdgroup to another, see join.
    void give(threadgroup float *to) const {
        to[0] = top;
        to[LANES] = sum;
#pragma unroll
        for (int r = 0; r < R; r++) {
#pragma unroll
            for (int i = 0; i < HELD; i++) to[(2 + r * HELD + i) * LANES] = o[r][i];
        }
    }

    void take(const threadgroup float *from, Scoring scoring) {
        const float high = max(top, from[0]), share = scoring.weight(from[0], high);
        shrink(scoring.weight(top, high));
        top = high;
        sum += from[LANES] * share;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float factor = of_row(share, r);
#pragma unroll
            for (int i = 0; i < HELD; i++) o[r][i] += from[(2 + r * HELD + i) * LANES] * factor;
        }
    }

    // total adds up the sums of a row's lanes, and then what the teams have.
    void total(Scoring scoring) {
        sum /= Weights::REPEATED;
#pragma unroll
        for (int apart = SPREAD / 2; apart > 0; apart /= 2) sum += simd_shuffle_xor(sum, apart);
        float high = top;
#pragma unroll
        for (int apart = SIZE; apart < int(LANES); apart *= 2) high = max(high, simd_shuffle_xor(high, apart));
        shrink(scoring.weight(top, high));
        top = high;
#pragma unroll
        for (int apart = SIZE; apart < int(LANES); apart *= 2) {
            sum += simd_shuffle_xor(sum, apart);
#pragma unroll
            for (int r = 0; r < R; r++) {
#pragma unroll
                for (int i = 0; i < HELD; i++) o[r][i] += simd_shuffle_xor(o[r][i], apart);
            }
        }
    }

    // write writes the rows, the first of which is row from of the item; a team for each.
    void write(Output<T> out, Scoring scoring, int from) const {
        const int rows_left = int(out.task.item.rows) - from;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float high = of_row(top, r), all = of_row(sum, r);
            if (r >= rows_left || lane / SIZE != r % TEAMS) continue;
            const Finish finish(high, all, scoring.natural, out.sink(from + r));
            if (lane % SIZE == 0) out.lse(from + r, finish.lse);
            const Line<T> line = out.line(from + r);
#pragma unroll
            for (int i = 0; i < HELD; i += 4) {
                const int dim = Values::dim(i / N, lane % SIZE) + i % N;
                if (dim >= VDIM) continue;
                line.put(dim, float4(o[r][i], o[r][i + 1], o[r][i + 2], o[r][i + 3]) * finish.factor);
            }
        }
    }

  private:
    // of_row is x of the lanes that hold row r's scores.
    float of_row(float x, int r) const { return simd_shuffle(x, ushort(lane / SIZE * SIZE + r * SPREAD)); }

    void shrink(float factor) {
        sum *= factor;
#pragma unroll
        for (int r = 0; r < R; r++) {
            const float shared = of_row(factor, r);
#pragma unroll
            for (int i = 0; i < HELD; i++) o[r][i] *= shared;
        }
    }
};

} // namespace fkv
