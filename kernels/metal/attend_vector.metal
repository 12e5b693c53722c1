// Attention of items of at most FKV_VECTOR_ROWS rows: one query of a small group.
#include "team.h"
#include "tile.h"

namespace fkv {

// Each simdgroup walks tiles of its own, so no barrier holds it back, and lanes load what
// they multiply straight from the cache; the simdgroups' softmaxes are added up at the end.
struct Vector {
    using Cached = Plane<FKV_IN, FKV_OUT>;
    enum : int { SIMDGROUPS = 4, EACH = Cached::N > 4 ? 4 : 2 }; // of a team: 64 bytes a lane, less in codes
    using Rows = Softmax<FKV_IN, Cached::N, FKV_KDIM, FKV_VDIM, EACH>;
    enum : int { TEAMS = Rows::TEAMS, KEYS = EACH * TEAMS, SHARED = joined<SIMDGROUPS, 1, Rows>() };
    static_assert(int(SHARED) <= 32 << 10 && int(Rows::R) == FKV_VECTOR_ROWS, "what a threadgroup may have");
    using Keys = InCache<Cached, FKV_KDIM, Rows::SIZE, EACH>;
    using Values = InCache<Cached, FKV_VDIM, Rows::SIZE, EACH>;

    static void run(Call call, Results results, Task task, Here here, threadgroup void *shared) {
        const int simdgroup = here.simdgroup, lane = here.lane, team = lane / Rows::SIZE;
        const Span span = span_of(task, lane);
        const Pages pages(call.table, *call.args, task.seq, task.kv_head);
        const Scoring scoring(*call.args);
        const Cached keys_from(call.keys(task.kv_head), FKV_KDIM), values_from(call.values(task.kv_head), FKV_VDIM);
        Rows rows(task, 0, lane);
        for (int begin = simdgroup * KEYS; begin < span.count; begin += SIMDGROUPS * KEYS) {
            const int first = begin + team, left = (span.count - first + TEAMS - 1) / TEAMS; // of the team
            int64_t at[EACH];
#pragma unroll
            for (int k = 0; k < EACH; k++) at[k] = pages.row(span.at(min(first + k * TEAMS, span.count - 1)));
            const Keys keys(keys_from, pages, at, left, lane % Rows::SIZE);
            const Values values(values_from, pages, at, left, lane % Rows::SIZE); // on its way meanwhile
            typename Rows::Weights s = rows.rows.multiply(keys, lane);
            const uint seen = rows.weigh(s, scoring, span, first);
            rows.mix(s, values, seen);
        }
        join<SIMDGROUPS, 1>(rows, scoring, shared, simdgroup, 0, lane);
        if (simdgroup > 0) return;
        rows.total(scoring);
        rows.write(Output<FKV_IN>{call, results, task}, scoring, 0);
    }
};

} // namespace fkv

FKV_ATTEND_KERNEL(128, FKV_ATTEND_RESULTS) {
    threadgroup float4 shared[fkv::Vector::SHARED / 16];
    fkv::Task task(FKV_CALL);
    if (!task.read(FKV_HERE, FKV_VECTOR_ROWS) || !task.writable()) return;
    fkv::Vector::run(FKV_CALL, FKV_WRITES, task, FKV_HERE, shared);
}
