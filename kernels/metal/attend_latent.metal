// Attention over a latent cache (MLA; DeepSeek-V2, arXiv:2405.04434) on simdgroup matrices: one plane, whose first
// elements are the values, too, so that a tile is read once for both.
#include "strip.h"

namespace fkv {

// Rows are too long for one simdgroup: 8 queries of 576 halves and what they gather of 512 floats are 72 and 128
// registers of a lane, far more than leave several simdgroups on a core. So the simdgroups of the same rows divide a row's elements: each multiplies
// its part of queries and keys, the sums meet in threadgroup memory, all make the same weights of them, and each mixes
// its part of the values. With at most 8 rows all eight simdgroups have the same ones, with more two sets of four.
//
// In threadgroup memory are a matrix of sums of each simdgroup, 2048 bytes, and two slots of 8 keys [576 + 8], 18688
// bytes; with 16 keys a slot there would be room for one, and loads would wait for the walk. Queries, 18432 bytes for 16
// rows, have none there beside them: they lie in registers, 9 or 18 of a lane.
template <int STRIPS> struct Latent {
    enum : int { SIMDGROUPS = 8, PARTS = SIMDGROUPS / STRIPS, KEYS = 8 };
    enum : int { PART = FKV_KDIM / PARTS, COLUMNS = FKV_VDIM / PARTS }; // of keys and of values
    using T = FKV_IN;
    using Cached = Plane<T, FKV_OUT>;
    using Tiles = Stream<Cached, FKV_KDIM, 0, KEYS, SIMDGROUPS * int(LANES), STRIP_PAD>;
    using Rows = Strip<T, COLUMNS, KEYS>;
    enum : int { SUMS = SIMDGROUPS * int(LANES), SHARED = SUMS * sizeof(float2) + Tiles::BYTES }; // SUMS: a pair a lane
    static_assert(PART % 8 == 0 && COLUMNS % 8 == 0, "whole matrices for every simdgroup");
    static_assert(int(SHARED) <= 32 << 10, "what a threadgroup may have");

    static void run(Call call, Results results, Task task, Here here, threadgroup void *shared) {
        const int set = here.simdgroup % STRIPS, part = here.simdgroup / STRIPS, from = set * STRIP_ROWS;
        const Span span = span_of(task, here.lane);
        const Scoring scoring(*call.args);
        const Pages pages(call.table, *call.args, task.seq, task.kv_head);
        const Cached keys_from(call.keys(task.kv_head), FKV_KDIM);
        threadgroup float2 *sums = static_cast<threadgroup float2 *>(shared);
        Tiles tiles(sums + SUMS, keys_from, keys_from, pages, span, here.index);
        const Queries<T, PART> queries(task, from, part * PART, here.lane);
        Rows rows(task, from, here.lane);
        for (int begin = 0; begin < span.count; begin += KEYS) {
            Matrix<float> s[1];
            const threadgroup T *keys = tiles.keys();
            const bool met = !rows.none(span, begin); // the same in all simdgroups of a set
            if (met) {
                queries.template multiply<KEYS>(s, keys + part * PART, Tiles::KEY_STRIDE);
                sums[here.simdgroup * LANES + here.lane] = float2(s[0].thread_elements()[0], s[0].thread_elements()[1]);
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (met) {
                float2 sum = float2(0);
#pragma unroll
                for (int p = 0; p < PARTS; p++) sum += sums[(p * STRIPS + set) * LANES + here.lane];
                s[0].thread_elements()[0] = sum.x;
                s[0].thread_elements()[1] = sum.y;
                const uint seen = rows.weigh(s, scoring, span, begin);
                rows.mix(s, keys + part * COLUMNS, Tiles::KEY_STRIDE, seen);
            }
        }
        rows.total();
        rows.write(Output<T>{call, results, task}, scoring, from, part * COLUMNS);
    }
};

} // namespace fkv

FKV_ATTEND_KERNEL(256, FKV_ATTEND_RESULTS) {
    threadgroup float4 shared[fkv::Latent<2>::SHARED / 16];
    static_assert(int(fkv::Latent<1>::SHARED) <= int(fkv::Latent<2>::SHARED), "room for both");
    fkv::Task task(FKV_CALL);
    if (!task.read(FKV_HERE, FKV_DECODE_ROWS) || !task.writable()) return;
    if (task.item.rows <= fkv::STRIP_ROWS) {
        fkv::Latent<1>::run(FKV_CALL, FKV_WRITES, task, FKV_HERE, shared);
    } else {
        fkv::Latent<2>::run(FKV_CALL, FKV_WRITES, task, FKV_HERE, shared);
    }
}
