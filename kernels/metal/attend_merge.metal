// The rows of items whose keys were split: the parts' results become one.
#include "output.h"

namespace fkv {

// Each simdgroup merges rows of its own: first every lane looks at the weights of its parts,
// then all of them read the parts' rows, several at a time because memory is far. A part of
// no weight is not read.
struct Merge {
    enum : int { SIMDGROUPS = 4, N = 4, AHEAD = 8 }; // elements of a lane, and rows under way

    const device float *lse, *values; // of part 0
    int64_t step;                     // from a part's row to the next
    uint32_t parts, v_dim;

    static void run(Call call, Results results, Task task, Here here) {
        constant fkv_attend_args &args = *call.args;
        const Output<FKV_IN> out = {call, results, task};
        for (uint32_t r = here.simdgroup; r < task.item.rows; r += SIMDGROUPS) {
            const int64_t first = task.partial(0, r);
            const Merge row = {results.partial_lse + first, results.partial + first * args.v_dim,
                               task.partial(1, r) - first, task.item.parts, args.v_dim};
            float top = NEG_INF, sum = 0;
            for (uint32_t part = here.lane; part < row.parts; part += LANES) top = max(top, row.lse[part * row.step]);
            top = simd_max(top);
            for (uint32_t part = here.lane; part < row.parts; part += LANES) sum += row.weight(part, top);
            const Finish finish(top, simd_sum(sum), 1, NEG_INF);
            if (here.lane == 0) out.final_lse(r, finish.lse);
            row.put(out.final_line(r), top, finish.factor, here.lane);
        }
    }

    float weight(uint32_t part, float top) const {
        const float x = lse[part * step];
        return x == NEG_INF ? 0 : weight_of((x - top) * LOG2E);
    }

    // put writes the row.
    void put(Line<FKV_IN> line, float top, float factor, uint lane) const {
        for (uint32_t begin = 0; begin < v_dim; begin += LANES * N) {
            const uint32_t dim = begin + lane * N;
            float4 x = float4(0);
            for (uint32_t first = 0; first < parts; first += LANES) {
                const float share = first + lane < parts ? weight(first + lane, top) * factor : 0;
                const uint32_t end = min(parts - first, uint32_t(LANES));
                for (uint32_t part = 0; part < end; part += AHEAD) x += sum_of(share, first, part, dim);
            }
            if (dim < v_dim) line.put(dim, x);
        }
    }

    // sum_of is dims [dim, dim+N) of AHEAD parts, by the shares that lanes have.
    float4 sum_of(float share, uint32_t first, uint32_t part, uint32_t dim) const {
        float by[AHEAD];
        float4 v[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            by[a] = simd_shuffle(share, ushort(part + a));
            v[a] = float4(0);
            if (by[a] != 0 && dim < v_dim) v[a] = load4(values + (first + part + a) * step * v_dim + dim);
        }
        float4 x = float4(0);
#pragma unroll
        for (int a = 0; a < AHEAD; a++) x += v[a] * by[a];
        return x;
    }
};

} // namespace fkv

FKV_ATTEND_KERNEL(128, FKV_ATTEND_RESULTS) {
    fkv::Task task(FKV_CALL);
    if (!task.read(FKV_HERE, FKV_PREFILL_ROWS) || !task.mergeable()) return;
    fkv::Merge::run(FKV_CALL, FKV_WRITES, task, FKV_HERE);
}
