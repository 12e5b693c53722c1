// Attention mass (H2O, arXiv:2306.14048): a second walk over the keys of the items, now
// that the softmax denominators are known. A key gets one addition from each ROWS rows of an item.
#include "strip.cuh"
#include "team.cuh"

namespace fkv {

// Walk is an item on its way: rows are its queries in shared memory.
template <class T> struct Walk {
    const T *rows;
    const Lookout &lookout;
    const Task &task;
    const Span &span;
    const Pages &pages;
    const Scoring &scoring;
    float *mass;

    // weight is the probability that row r gives to key number i of the span.
    __device__ float weight(float product, int r, int i) const {
        const float score = lookout.score(product, scoring, r, span, i), lse = lookout.row(r).lse;
        return score == NEG_INF || lse == NEG_INF ? 0 : exp2_fast((score * scoring.natural - lse) * LOG2E);
    }

    // add gives a key, number i of the span, its mass.
    __device__ void add(int i, float x) const {
        if (span.has(i)) atomicAdd(mass + pages.row(span.at(i)), x);
    }
};

// Mass walks the keys of an item, each warp tiles of its own; Part computes one.
template <template <class, class, int> class Part, class T, class S, int KDIM> struct Mass {
    using E = Used<T, S>;
    static constexpr int ROWS = KDIM > 256 ? FKV_DECODE_ROWS : FKV_PREFILL_ROWS;  // at once
    static constexpr int MOST = KDIM > 256 ? FKV_WIDE_LATENT_ROWS : FKV_WIDE_ROWS; // of an item
    static constexpr int WARPS = KDIM > 192 ? 2 : 4, THREADS = 32 * WARPS, BLOCKS = 1, KEYS = Part<T, E, KDIM>::KEYS;
    using Stream = Ring<T, S, KDIM, 0, KEYS, 2, 32, Part<T, E, KDIM>::MIXED>;
    static constexpr int STRIDE = KDIM + Vec<T>::N, LOOKOUT = Lookout::bytes(ROWS);
    static constexpr int QUERIES = LOOKOUT + ROWS * STRIDE * int(sizeof(T)), SHARED = QUERIES + WARPS * Stream::BYTES;
    static_assert(SHARED <= 99 * 1024, "what a block may have on every device from 8.0 on");

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(MOST)) return;
        for (uint32_t left = task.item.rows; left > 0; left -= task.item.rows, task.item.row += ROWS) {
            task.item.rows = min(left, uint32_t(ROWS));
            walk(at, args, task);
            __syncthreads(); // shared memory is free again
        }
    }

    // walk walks the keys for rows that are there at once.
    __device__ static void walk(const Operands &at, const fkv_attend_args &args, const Task &task) {
        FKV_SHARED(shared);
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        T *rows = reinterpret_cast<T *>(shared + LOOKOUT);
        load_queries<KDIM, ROWS>(rows, STRIDE, at.q, task, args);
        const Lookout lookout{shared};
        if (threadIdx.x == 0) lookout.note(task);
        const Span span = span_of(task, lookout.look<ROWS>(task, 0, warp == 0), lookout);
        Pages pages(at.table, args, task.seq, task.kv_head);
        Stream ring(shared + QUERIES + warp * Stream::BYTES, at, args, pages, span, lane, warp, WARPS);
        copy_wait<Stream::SLOTS - 1>(); // the queries are there
        __syncthreads(); // and the lookout
        load_lses(lookout, task);
        __syncthreads();
        Scoring scoring(args, at.alibi, left_out<E, S>(at.k_scales, args.k_storage, task.kv_head));
        Walk<T> walk{rows, lookout, task, span, pages, scoring, at.mass};
        for (int begin = warp * KEYS; begin < span.count; begin += WARPS * KEYS) {
            Part<T, E, KDIM>::add(walk, ring.keys(), begin, lane);
        }
    }

    __device__ static void load_lses(const Lookout &lookout, const Task &task) {
        for (uint32_t r = threadIdx.x; r < task.item.rows; r += blockDim.x) {
            const Row row = task.row(r);
            lookout.row(r).lse = task.at.final_lse[int64_t(row.token()) * task.args.q_heads + row.head];
        }
    }
};

// Strips is the tile of 16-bit formats: 16 keys, multiplied with all strips of rows.
template <class T, class S, int KDIM> struct Strips {
    static_assert(std::is_same_v<T, S>, "tensor cores multiply one type");
    static constexpr int KEYS = 16, STRIDE = QUERY_STRIDE<KDIM>;
    static constexpr bool MIXED = true;
    static_assert(STRIDE == KDIM + Vec<T>::N, "that of the walk's rows");

    __device__ static void add(const Walk<T> &walk, const S *keys, int begin, int lane) {
        float mass[KEYS / 8][2] = {};
        for (int from = 0; from < int(walk.task.item.rows); from += STRIP_ROWS) {
            float s[KEYS / 8][4];
            Queries<T, KDIM, false>(walk.rows + from * STRIDE, lane).template multiply<KEYS>(s, keys, lane);
#pragma unroll
            for (int e = 0; e < 4; e++) {
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) {
                    mass[n][e % 2] += walk.weight(s[n][e], from + lane / 4 + e / 2 * 8, begin + n * 8 + lane % 4 * 2 + e % 2);
                }
            }
        }
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float sum = mass[n][e];
#pragma unroll
                for (int apart = 4; apart < 32; apart *= 2) sum += __shfl_xor_sync(FULL, sum, apart);
                if (lane < 4) walk.add(begin + n * 8 + lane * 2 + e, sum);
            }
        }
    }
};

// Teams is the tile of formats of f32: a team of lanes has a key at a time.
template <class T, class S, int KDIM> struct Teams {
    static constexpr int LANES = team_lanes(KDIM), TEAMS = 32 / LANES;
    static constexpr int KEYS = (KDIM > 128 ? 2 : 4) * TEAMS, STRIDE = KDIM + Vec<T>::N;
    static constexpr bool MIXED = false;
    using Keys = Team<S, KDIM, LANES>;

    __device__ static void add(const Walk<T> &walk, const S *keys, int begin, int lane) {
        for (int k = lane / LANES; k < KEYS; k += TEAMS) {
            float mass = 0, x[Keys::HELD], q[Keys::HELD];
            Keys::load(x, keys + k * KDIM, lane % LANES);
            for (int r = 0; r < int(walk.task.item.rows); r++) {
                Keys::load(q, walk.rows + r * STRIDE, lane % LANES);
                float dot = 0;
#pragma unroll
                for (int i = 0; i < Keys::HELD; i++) dot += x[i] * q[i];
                mass += walk.weight(Keys::sum(dot), r, begin + k);
            }
            if (lane % LANES == 0) walk.add(begin + k, mass);
        }
    }
};

} // namespace fkv

#define FKV_ATTEND_MASS_OF(part, act, kv, kdim, vdim)                                                                    \
    FKV_ATTEND_KERNEL(fkv_attend_mass_##act##_##kv##_##kdim##_##vdim, fkv::Mass<fkv::part, fkv::act, fkv::kv, kdim>)

#define FKV_ATTEND_MASS(part, act, kv)                                                                                \
    FKV_ATTEND_DIMS(FKV_ATTEND_MASS_OF, part, act, kv)                                                                \
    FKV_ATTEND_MASS_OF(part, act, kv, 576, 512)

FKV_ATTEND_MASS(Strips, f16, f16)
FKV_ATTEND_MASS(Strips, bf16, bf16)
FKV_ATTEND_MASS(Teams, f32, f32)
FKV_ATTEND_MASS(Teams, f32, f16)
FKV_ATTEND_MASS(Teams, f32, bf16)
FKV_ATTEND_MASS(Strips, f16, quant)
FKV_ATTEND_MASS(Strips, bf16, quant)
FKV_ATTEND_MASS(Teams, f32, quant)
