// Attention on CUDA cores: rows a few at a time, in f32.
#pragma once

#include "outlook.cuh"
#include "output.cuh"
#include "ring.cuh"

namespace fkv {

// Team is how lanes share the work of a dot product: LANES of them hold a row [DIM] of S
// by vectors of 16 bytes, TEAMS rows a warp. Lane i of a team holds vectors i, i+LANES, …
// of them, of which the last may be missing.
template <class S, int DIM, int LANES> struct Team {
    static constexpr int TEAMS = 32 / LANES, N = Vec<S>::N;
    static constexpr int VECTORS = (DIM / N + LANES - 1) / LANES, HELD = VECTORS * N;

    // dim is where vector j of a lane begins, DIM or more for a missing one.
    __device__ static int dim(int j, int lane) { return (j * LANES + lane) * N; }

    // load reads a lane's elements of a row of T, zeros for missing vectors.
    template <class T> __device__ static void load(float (&x)[HELD], const T *row, int lane) {
        constexpr int READ = Vec<T>::N < N ? Vec<T>::N : N;
#pragma unroll
        for (int j = 0; j < VECTORS; j++) {
#pragma unroll
            for (int i = 0; i < N; i += READ) {
                Vec<T> v = {};
                if (DIM % (LANES * N) == 0 || dim(j, lane) < DIM) {
                    v = *reinterpret_cast<const Vec<T> *>(row + dim(j, lane) + i);
                }
#pragma unroll
                for (int e = 0; e < READ; e++) x[j * N + i + e] = to_float(v.at[e]);
            }
        }
    }

    // sum adds over a team; all of its lanes get the result.
    __device__ static float sum(float x) {
#pragma unroll
        for (int apart = LANES / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(FULL, x, apart);
        return x;
    }
};

// Scores is ROWS x EACH numbers of a team of LANES lanes, row by row, HELD of them in a
// lane: a row lies in SPREAD lanes side by side. Where there are more lanes than numbers,
// REPEATED lanes hold the same. So what is done with a score is done once, not by every
// lane, and its code is there once: unrolled over rows and keys it made up half a kernel.
template <int ROWS, int EACH, int LANES> struct Scores {
    static constexpr int COUNT = ROWS * EACH, HELD = COUNT > LANES ? COUNT / LANES : 1;
    static constexpr int SPREAD = LANES / ROWS, REPEATED = COUNT < LANES ? LANES / COUNT : 1;
    static_assert(SPREAD > 0 && HELD <= EACH, "one row a lane");

    float at[HELD];

    Scores() = default;

    // A team's lanes have a share of each number: their sums are the scores. At each step
    // two lanes split what both have, each sends the half that the other keeps; of a last
    // number both keep the sum.
    __device__ Scores(float (&share)[COUNT], int lane) {
        gather<COUNT, LANES / 2>(share, lane);
#pragma unroll
        for (int i = 0; i < HELD; i++) at[i] = share[i];
    }

    // column is where in its row at[i] is.
    __device__ static int column(int i, int lane) { return lane % SPREAD * EACH / SPREAD + i; }

    // of is number i of row r, for all lanes.
    __device__ float of(int r, int i) const {
        return __shfl_sync(FULL, at[i % HELD], (r * EACH + i) * REPEATED / HELD, LANES);
    }

  private:
    // gather is the step between lanes APART for N numbers, and those after it.
    template <int N, int APART> __device__ static void gather(float (&share)[COUNT], int lane) {
        if constexpr (APART > 0) {
            constexpr int KEPT = N > 1 ? N / 2 : 1;
            bool high = lane & APART;
#pragma unroll
            for (int i = 0; i < KEPT; i++) {
                float sent = N == 1 || !high ? share[i + N - KEPT] : share[i], kept = high ? share[i + N - KEPT] : share[i];
                share[i] = kept + __shfl_xor_sync(FULL, sent, APART);
            }
            gather<KEPT, APART / 2>(share, lane);
        }
    }
};

// team_lanes is the size of teams that leaves a lane 8 elements of a row.
constexpr int team_lanes(int dim) { return dim > 128 ? 32 : dim > 64 ? 16 : 8; }

// Vectors attends for items of at most ROWS rows, 4 to a warp: with 4 each warp walks its
// own keys, with 16 all walk the same ones, so that either way each row of the cache is
// read once. Every team has its own softmax over the keys that it met. With LATENT values are the first elements of
// keys.
template <class T, class S, int KDIM, int VDIM, int ROWS, bool LATENT = false> struct Vectors {
    static constexpr int WARPS = 4, THREADS = 32 * WARPS, BLOCKS = 1, R = 4;
    static constexpr int ROW_WARPS = ROWS / R, KEY_WARPS = WARPS / ROW_WARPS;
    static constexpr int LANES = team_lanes(KDIM), TEAMS = 32 / LANES;
    using E = Used<T, S>;
    static_assert(!std::is_same_v<S, quant> || sizeof(E) == 4, "nothing is left out of elements here");
    using Keys = Team<E, KDIM, LANES>;
    using Values = Team<E, VDIM, LANES>;

    // EACH is the keys of a team in a tile: about 4 KB of keys and values a warp.
    static constexpr int ROOM = 4096 * ROW_WARPS / (TEAMS * (KDIM + (LATENT ? 0 : VDIM)) * int(sizeof(E)));
    static constexpr int EACH = ROOM >= 4 ? 4 : ROOM >= 2 ? 2 : 1;
    static constexpr int KEYS = EACH * TEAMS, STAGES = 2;
    template <int N> using Number = std::integral_constant<int, N>;
    template <int N> using Weights = Scores<N, EACH, LANES>;
    using Stream = Ring<T, S, KDIM, LATENT ? 0 : VDIM, KEYS, STAGES, 32 * ROW_WARPS, false>;
    static constexpr int VALUE_STRIDE = LATENT ? KDIM : VDIM;
    using Result = States<KEY_WARPS * TEAMS, ROWS, VDIM>;
    static constexpr int LOOKOUT = Lookout::bytes(ROWS), RINGS = LOOKOUT + KEY_WARPS * Stream::BYTES;
    static constexpr int SHARED = RINGS > Result::BYTES ? RINGS : Result::BYTES;

    float q[R][Keys::HELD], o[R][Values::HELD];
    float weights[Weights<R>::HELD]; // of the keys of a tile
    float top, sum;                  // of the row whose scores this lane holds
    int spread;                      // and how many lanes of a team hold a row's scores

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(ROWS) || !task.writable()) return;
        FKV_SHARED(shared);
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        int row_warp = warp % ROW_WARPS, key_warp = warp / ROW_WARPS;
        const Lookout lookout{shared};
        if (threadIdx.x == 0) lookout.note(task);
        const Span span = span_of(task, lookout.look<ROWS>(task, 0, warp == 0), lookout);
        const Pages pages(at.table, args, task.seq, task.kv_head);
        Stream ring(shared + LOOKOUT + key_warp * Stream::BYTES, at, args, pages, span, ROW_WARPS == 1 ? lane : int(threadIdx.x), key_warp, KEY_WARPS);
        Scoring scoring(args, at.alibi, 1);
        Vectors rows;
        rows.begin(at, args, task, row_warp * R, lane % LANES);
        __syncthreads(); // the lookout is there
        const uint32_t count = task.item.rows;
        bool used = row_warp * R < count;
        for (int first = key_warp * KEYS; first < span.count; first += KEY_WARPS * KEYS) {
            const E *keys = ring.keys();
            if (used) {
                by_rows(count, [&](auto n) {
                    auto s = rows.score(n, keys, lane);
                    rows.weigh(s, scoring, lookout, row_warp * R, span, first + lane / LANES, lane % LANES);
                });
            }
            const E *values = keys;
            if constexpr (!LATENT) values = ring.values();
            if (used) by_rows(count, [&](auto n) { rows.mix(n, values, lane); });
        }
        __syncthreads(); // the rings' memory is free
        Result result{reinterpret_cast<float *>(shared)};
        rows.end(result, key_warp * TEAMS + lane / LANES, row_warp * R, lane % LANES);
        __syncthreads();
        result.combine(Output<T>{at, args, task}, scoring, 1, warp, WARPS, lane);
    }

    // by_rows calls f with how many rows to compute for: R, or the one that items have where heads are in no
    // groups, and which would waste three products of four. What copies and unpacks, most of the code, is there once.
    template <class F> __device__ static void by_rows(uint32_t rows, F f) {
        if constexpr (ROWS == R) {
            if (rows == 1) return f(Number<1>());
        }
        f(Number<R>());
    }

    __device__ void begin(const Operands &at, const fkv_attend_args &args, const Task &task, int first, int lane) {
#pragma unroll
        for (int r = 0; r < R; r++) {
            Row row = task.row(first + r); // beyond the last: a row that nobody writes
            Keys::load(q[r], static_cast<const T *>(at.q) + row.token() * args.q_stride + int64_t(row.head) * KDIM, lane);
#pragma unroll
            for (int i = 0; i < Values::HELD; i++) o[r][i] = 0;
        }
        by_rows(task.item.rows, [&](auto n) { spread = LANES / n.value; });
        top = NEG_INF;
        sum = 0;
    }

    // score multiplies the team's keys of a tile with the rows.
    template <int N> __device__ Weights<N> score(Number<N>, const E *keys, int lane) const {
        float s[N * EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float x[Keys::HELD];
            Keys::load(x, keys + (k * TEAMS + lane / LANES) * KDIM, lane % LANES);
#pragma unroll
            for (int r = 0; r < N; r++) {
                s[r * EACH + k] = 0;
#pragma unroll
                for (int i = 0; i < Keys::HELD; i++) s[r * EACH + k] += x[i] * q[r][i];
            }
        }
        return Weights<N>(s, lane % LANES);
    }

    // weigh turns products into weights, and shrinks what was added up under a smaller top.
    template <int N> __device__ void weigh(Weights<N> &s, const Scoring &scoring, const Lookout &lookout, int row, const Span &span, int first, int lane) {
        float high = top;
#pragma unroll
        for (int i = 0; i < Weights<N>::HELD; i++) {
            s.at[i] = lookout.score(s.at[i], scoring, row + lane / Weights<N>::SPREAD, span, first + Weights<N>::column(i, lane) * TEAMS);
            high = fmaxf(high, s.at[i]);
        }
#pragma unroll
        for (int apart = Weights<N>::SPREAD / 2; apart > 0; apart /= 2) high = fmaxf(high, __shfl_xor_sync(FULL, high, apart));
        float shrink = scoring.weight(top, high);
        if (__any_sync(FULL, high != top)) {
#pragma unroll
            for (int r = 0; r < N; r++) {
                float factor = __shfl_sync(FULL, shrink, r * Weights<N>::SPREAD, LANES);
#pragma unroll
                for (int i = 0; i < Values::HELD; i++) o[r][i] *= factor;
            }
        }
        top = high;
        sum *= shrink;
#pragma unroll
        for (int i = 0; i < Weights<N>::HELD; i++) {
            weights[i] = scoring.weight(s.at[i], high);
            sum += weights[i];
        }
    }

    template <int N> __device__ void mix(Number<N>, const E *values, int lane) {
        Weights<N> s;
#pragma unroll
        for (int i = 0; i < Weights<N>::HELD; i++) s.at[i] = weights[i];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            float x[Values::HELD];
            Values::load(x, values + (k * TEAMS + lane / LANES) * VALUE_STRIDE, lane % LANES);
#pragma unroll
            for (int r = 0; r < N; r++) {
                float weight = s.of(r, k);
#pragma unroll
                for (int i = 0; i < Values::HELD; i++) o[r][i] += weight * x[i];
            }
        }
    }

    // end hands the team's softmax to the block.
    __device__ void end(const Result &result, int state, int first, int lane) const {
        constexpr int N = Values::N;
#pragma unroll
        for (int r = 0; r < R; r++) {
#pragma unroll
            for (int j = 0; j < Values::VECTORS; j++) {
                if (Values::dim(j, lane) >= VDIM) continue;
#pragma unroll
                for (int i = 0; i < N; i++) result.values(state, first + r)[Values::dim(j, lane) + i] = o[r][j * N + i];
            }
        }
        float all = sum;
#pragma unroll 1
        for (int apart = spread / 2; apart * EACH >= spread; apart /= 2) all += __shfl_xor_sync(FULL, all, apart);
        if (lane % spread == 0) {
            result.top(state, first + lane / spread) = top;
            result.sum(state, first + lane / spread) = all;
        }
    }
};

} // namespace fkv
