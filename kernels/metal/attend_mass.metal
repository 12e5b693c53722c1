// Attention mass (H2O, arXiv:2306.14048): a second walk over the keys of the items, now
// that the softmax denominators are known.
#include "strip.h"
#include "team.h"

namespace fkv {

// Target is what a lane's row needs beside its query.
struct Target {
    Lookout lookout;
    float lse; // -inf: the row counts for nothing

    Target(const device float *final_lse, const thread Task &task, uint32_t r) : lookout(task, r) {
        const Row row = task.row(r);
        lse = r < task.item.rows ? final_lse[int64_t(row.token()) * task.call.args->q_heads + row.head] : NEG_INF;
    }

    // weight is the probability that the row gives to key number i of the span.
    float weight(float product, Scoring scoring, Span span, int i) const {
        const float score = lookout.score(product, scoring, span, i);
        return score == NEG_INF || lse == NEG_INF ? 0 : weight_of((score * scoring.natural - lse) * LOG2E);
    }
};

// Masses is what is added to, by numbers of the span.
struct Masses {
    device atomic_float *mass;
    Pages pages;
    Span span;

    void add(int i, float x) const {
        if (i < span.count) atomic_fetch_add_explicit(mass + pages.row(span.at(i)), x, memory_order_relaxed);
    }
};

// Matrices is the rows of a simdgroup in 16-bit formats: a strip, and 8 keys at a time.
template <class T, int KDIM> struct Matrices {
    enum : int { ROWS = STRIP_ROWS, KEYS = 8, PAD = STRIP_PAD };

    Queries<T, KDIM> queries;
    Target target;
    int lane;

    Matrices(const device float *final_lse, const thread Task &task, int from, int lane_at)
        : queries(task, from, 0, lane_at), target(final_lse, task, from + lane_row(lane_at)), lane(lane_at) {}

    void add(const thread Masses &to, const threadgroup T *keys, int begin, Scoring scoring) const {
        Matrix<float> s[1];
        queries.template multiply<KEYS>(s, keys, KDIM + PAD);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int i = begin + lane_column(lane) + e;
            float sum = target.weight(s[0].thread_elements()[e], scoring, to.span, i);
            sum += simd_shuffle_xor(sum, 2);
            sum += simd_shuffle_xor(sum, 4);
            sum += simd_shuffle_xor(sum, 16);
            if (lane_row(lane) == 0) to.add(i, sum);
        }
    }
};

// Teams is the same in formats of f32: a few rows, and a few keys for every team.
template <class T, class S, int KDIM> struct Teams {
    enum : int { EACH = latent(KDIM) ? 2 : 4, PAD = 0 };
    using Rows = Few<T, 16 / sizeof(S), KDIM, EACH>;
    using Products = typename Rows::Products;
    enum : int { ROWS = Rows::ROWS, SIZE = Rows::SIZE, TEAMS = int(LANES) / SIZE, KEYS = EACH * TEAMS };

    Rows rows;
    Target target;
    int lane;

    Teams(const device float *final_lse, const thread Task &task, int from, int lane_at)
        : rows(task, from, lane_at), target(final_lse, task, from + lane_at % SIZE / Products::SPREAD),
          lane(lane_at) {}

    void add(const thread Masses &to, const threadgroup S *keys, int begin, Scoring scoring) const {
        const int team = lane / SIZE, at = lane % SIZE;
        const InTile<S, KDIM, TEAMS> mine = {keys + team * KDIM};
        const Products s = rows.multiply(mine, lane);
#pragma unroll
        for (int j = 0; j < Products::HELD; j++) {
            const int i = begin + team + Products::column(j, at) * TEAMS;
            float sum = target.weight(s.at[j], scoring, to.span, i);
#pragma unroll
            for (int apart = Products::SPREAD; apart < int(SIZE); apart *= 2) sum += simd_shuffle_xor(sum, apart);
            if (at < Products::SPREAD && at % Products::REPEATED == 0) to.add(i, sum);
        }
    }
};

// Mass walks the keys of an item with four simdgroups: those of the same rows divide a
// tile between them. Items of more rows than the simdgroups hold are walked again. Of keys of a
// latent cache in 16 bits a tile has 16, 18688 bytes: there is no room for one of 32, so with up to 8 rows half
// of the simdgroups only load.
template <class Cached, int KDIM, class Rows> struct Mass {
    enum : int { SIMDGROUPS = 4, SHARES = latent(KDIM) && int(Rows::KEYS) * SIMDGROUPS > 16 ? 2 : SIMDGROUPS };
    enum : int { KEYS = int(Rows::KEYS) * SHARES, STRIDE = KDIM + int(Rows::PAD) };
    using Tiles = Stream<Cached, KDIM, 0, KEYS, SIMDGROUPS * int(LANES), Rows::PAD>;
    static_assert(int(Tiles::BYTES) <= 32 << 10, "what a threadgroup may have");

    static void run(Call call, const device float *final_lse, device atomic_float *mass, Task task, Here here,
                    threadgroup void *shared) {
        const int count = task.item.rows;
        const int sets = count <= Rows::ROWS ? 1 : count <= 2 * Rows::ROWS ? 2 : SIMDGROUPS;
        const int set = here.simdgroup % sets, own = here.simdgroup / sets * Rows::KEYS;
        const int step = SIMDGROUPS / sets * Rows::KEYS;
        const Span span = span_of(task, here.lane);
        const Pages pages(call.table, *call.args, task.seq, task.kv_head);
        const Scoring scoring(*call.args);
        const Cached keys_from(call.keys(task.kv_head), KDIM);
        const Masses to = {mass, pages, span};
        for (int from = 0; from < count; from += sets * Rows::ROWS) {
            const int first = from + set * Rows::ROWS;
            const Rows rows(final_lse, task, first, here.lane);
            threadgroup_barrier(mem_flags::mem_threadgroup); // the walk before is over
            Tiles tiles(shared, keys_from, keys_from, pages, span, here.index);
            for (int begin = 0; begin < span.count; begin += KEYS) {
                const threadgroup typename Cached::Type *keys = tiles.keys();
                for (int key = own; key < KEYS && first < count; key += step) {
                    rows.add(to, keys + key * STRIDE, begin + key, scoring);
                }
            }
        }
    }
};

// Multiplied chooses between the two, for tiles of S.
template <class T, int KDIM, class S> struct Multiplied { using Rows = Teams<T, S, KDIM>; };
template <class T, int KDIM> struct Multiplied<T, KDIM, T> { using Rows = Matrices<T, KDIM>; };
template <int KDIM> struct Multiplied<float, KDIM, float> { using Rows = Teams<float, float, KDIM>; };

using Cached = Plane<FKV_IN, FKV_OUT>;
using Instance = Mass<Cached, FKV_KDIM, Multiplied<FKV_IN, FKV_KDIM, Cached::Type>::Rows>;

} // namespace fkv

FKV_ATTEND_KERNEL(128, const device float *final_lse [[buffer(FKV_ATTEND_FINAL_LSE)]],
                  device atomic_float *mass [[buffer(FKV_ATTEND_MASS)]]) {
    threadgroup float4 shared[fkv::Instance::Tiles::BYTES / 16];
    fkv::Task task(FKV_CALL);
    if (!task.read(FKV_HERE, FKV_PREFILL_ROWS)) return;
    fkv::Instance::run(FKV_CALL, final_lse, mass, task, FKV_HERE, shared);
}
