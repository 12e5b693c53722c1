// The rows of items whose keys were split: the parts' results become one.
#include "output.h"

namespace fkv {

inline float share_of(float lse, float top) { return lse == NEG_INF ? 0 : exp2((lse - top) * LOG2E); }

// Each simdgroup merges rows of its own. A part of no weight is not read.
struct Merge {
    enum : int { SIMDGROUPS = 4, N = 4 };

    static void run(Call call, Results results, Task task, Here here) {
        constant fkv_attend_args &args = *call.args;
        const Output<FKV_IN> out = {call, results, task};
        for (uint32_t r = here.simdgroup; r < task.item.rows; r += SIMDGROUPS) {
            float top = NEG_INF, sum = 0;
            for (uint32_t part = 0; part < task.item.parts; part++) {
                top = max(top, results.partial_lse[task.partial(part, r)]);
            }
            for (uint32_t part = 0; part < task.item.parts; part++) {
                sum += share_of(results.partial_lse[task.partial(part, r)], top);
            }
            const Finish finish(top, sum, 1, NEG_INF);
            if (here.lane == 0) out.final_lse(r, finish.lse);
            const Line<FKV_IN> line = out.final_line(r);
            for (uint32_t dim = here.lane * N; dim < args.v_dim; dim += LANES * N) {
                float4 x = float4(0);
                for (uint32_t part = 0; part < task.item.parts; part++) {
                    const int64_t row = task.partial(part, r);
                    const float share = share_of(results.partial_lse[row], top) * finish.factor;
                    if (share != 0) x += load4(results.partial + row * args.v_dim + dim) * share;
                }
                line.put(dim, x);
            }
        }
    }
};

} // namespace fkv

FKV_ATTEND_KERNEL(128, FKV_ATTEND_RESULTS) {
    fkv::Task task(FKV_CALL);
    if (!task.read(FKV_HERE, FKV_PREFILL_ROWS) || !task.mergeable()) return;
    fkv::Merge::run(FKV_CALL, FKV_WRITES, task, FKV_HERE);
}
