// Attention of items of at most FKV_DECODE_ROWS rows for activations of f32, which
// matrices of 16-bit elements would round.
#include "team.h"
#include "tile.h"

namespace fkv {

constant constexpr int THREADS = latent(FKV_KDIM) ? 256 : 128;

// The simdgroups have 4 rows each, or 2 of a latent cache, and walk the same tiles, so that each row of the cache
// is read once. In a latent cache values are the first elements of keys.
struct Decode {
    enum : int { SIMDGROUPS = FKV_DECODE_ROWS / together(FKV_KDIM), EACH = 4 };
    using Cached = Plane<FKV_IN, FKV_OUT>;
    using Element = Cached::Type; // of a tile
    using Rows = Softmax<FKV_IN, 16 / sizeof(Element), FKV_KDIM, FKV_VDIM, EACH>;
    enum : int { TEAMS = Rows::TEAMS, KEYS = EACH * TEAMS };
    using Tiles = Stream<Cached, FKV_KDIM, latent(FKV_KDIM) ? 0 : FKV_VDIM, KEYS, SIMDGROUPS * int(LANES), 0>;
    static_assert(int(Tiles::BYTES) <= 32 << 10, "what a threadgroup may have");
    static_assert(SIMDGROUPS * int(LANES) == THREADS, "all rows of an item");
    using Keys = InTile<Element, Tiles::KEY_STRIDE, TEAMS>;
    using Values = InTile<Element, Tiles::VALUE_STRIDE, TEAMS>;

    static void run(Call call, Results results, Task task, Here here, threadgroup void *shared) {
        const int from = here.simdgroup * Rows::R, lane = here.lane, team = lane / Rows::SIZE;
        const bool used = from < int(task.item.rows);
        const Span span = span_of(task, lane);
        const Scoring scoring(*call.args);
        const Pages pages(call.table, *call.args, task.seq, task.kv_head);
        const Cached keys_from(call.keys(task.kv_head), FKV_KDIM), values_from(call.values(task.kv_head), FKV_VDIM);
        Tiles tiles(shared, keys_from, values_from, pages, span, here.index);
        Rows rows(task, from, lane);
        for (int begin = 0; begin < span.count; begin += KEYS) {
            const Keys keys = {tiles.keys() + team * Tiles::KEY_STRIDE};
            typename Rows::Weights s;
            uint seen = 0;
            if (used) {
                s = rows.rows.multiply(keys, lane);
                seen = rows.weigh(s, scoring, span, begin + team);
            }
            const Values values = {tiles.values() + team * Tiles::VALUE_STRIDE};
            if (used) rows.mix(s, values, seen);
        }
        if (!used) return;
        rows.total(scoring);
        rows.write(Output<FKV_IN>{call, results, task}, scoring, from);
    }
};

} // namespace fkv

FKV_ATTEND_KERNEL(fkv::THREADS, FKV_ATTEND_RESULTS) {
    threadgroup float4 shared[fkv::Decode::Tiles::BYTES / 16];
    fkv::Task task(FKV_CALL);
    if (!task.read(FKV_HERE, FKV_DECODE_ROWS) || !task.writable()) return;
    fkv::Decode::run(FKV_CALL, FKV_WRITES, task, FKV_HERE, shared);
}
