// The rows of items whose keys were split: the parts' results become one.
#include "output.cuh"

namespace fkv {

// A unit is 128 elements of a row. A warp merges it by itself, or the block's warps do together where there are
// more parts than a warp has under way at once. Little is computed here: time is what memory takes to answer, so the
// first parts' values are asked for together with the weights and with whose rows they are. What a part of no
// weight has there counts for nothing.
//
// Grid: x over items, y over KV heads, z over the units of an item; any z is right.
template <class T> struct Merge {
    static constexpr int WARPS = 4, THREADS = 32 * WARPS, BLOCKS = 6; // 80 registers
    static constexpr int N = Vec<float>::N, COLUMNS = 32 * N; // elements of a lane, and of a warp
    static constexpr int AHEAD = 32 / WARPS;                  // parts of a warp under way: a lane of 32 each
    static constexpr int SHARED = WARPS * COLUMNS * int(sizeof(float));

    const float *lse, *values; // of part 0
    int64_t step;              // from a part's row to the next
    uint32_t parts, v_dim;
    uint32_t dim;                   // the first that is this lane's
    uint32_t member, team;          // this warp's parts are member, member+team, …
    float first;                    // the log-sum-exp of part number lane
    Vec<float> ahead[AHEAD];

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read_item(FKV_WIDE_ROWS) || !task.mergeable()) return;
        const uint32_t chunks = (args.v_dim + COLUMNS - 1) / COLUMNS, units = task.item.rows * chunks;
        const uint32_t team = task.item.parts > AHEAD ? WARPS : 1, at_once = WARPS / team, warp = threadIdx.x / 32;
#pragma unroll 1
        for (uint32_t unit = blockIdx.z * at_once + warp / team; unit < units; unit += gridDim.z * at_once) {
            const uint32_t r = chunks == 1 ? unit : unit / chunks;
            Merge mine(task, r, unit - r * chunks, warp % team, team);
            if (!task.read_rows()) return;
            mine.put(Output<T>{at, args, task}, r);
        }
    }

    __device__ Merge(const Task &task, uint32_t r, uint32_t chunk, uint32_t of_team, uint32_t warps)
        : parts(task.item.parts), v_dim(task.args.v_dim), member(of_team), team(warps) {
        const uint32_t lane = threadIdx.x % 32;
        const int64_t row = task.partial(0, r);
        dim = chunk * COLUMNS + lane * N;
        lse = task.at.partial_lse + row;
        values = task.at.partial + row * v_dim + dim;
        step = int64_t(task.item.rows) * task.args.kv_heads;
        first = lse_of(lane);
        load(0);
    }

    // put writes the unit, and with the first of a row's its log-sum-exp.
    __device__ void put(const Output<T> &out, uint32_t r) {
        FKV_SHARED(shared);
        const uint32_t lane = threadIdx.x % 32;
        float top = first;
#pragma unroll 1
        for (uint32_t part = lane + 32; part < parts; part += 32) top = fmaxf(top, lse_of(part));
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) top = fmaxf(top, __shfl_xor_sync(FULL, top, apart));
        float share = weight(first, top), sum = share;
#pragma unroll 1
        for (uint32_t part = lane + 32; part < parts; part += 32) sum += weight(lse_of(part), top);
#pragma unroll
        for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(FULL, sum, apart);
        const Finish finish(top, sum, 1, nullptr);
        if (dim == 0 && member == 0) out.final_lse(r, finish.lse);
        float x[N] = {};
        add(x, share * finish.factor);
#pragma unroll 1
        for (uint32_t part = AHEAD * team; part < parts; part += AHEAD * team) {
            load(part);
            share = weight(lse_of(part + lane), top);
            add(x, share * finish.factor);
        }
        if (team > 1) {
            float *sums = reinterpret_cast<float *>(shared) + lane * N;
            store(sums + member * COLUMNS, x);
            __syncthreads();
#pragma unroll
            for (int of = 1; of < WARPS && member == 0; of++) {
                const Vec<float> v = *reinterpret_cast<const Vec<float> *>(sums + of * COLUMNS);
#pragma unroll
                for (int e = 0; e < N; e++) x[e] += v.at[e];
            }
            __syncthreads();
        }
        if (member == 0 && dim < v_dim) out.final_line(r).put(dim, x);
    }

    __device__ float lse_of(uint32_t part) const { return part < parts ? lse[part * step] : NEG_INF; }

    __device__ static float weight(float x, float top) { return x == NEG_INF ? 0 : exp2_fast((x - top) * LOG2E); }

    // load asks for the warp's values of AHEAD * team parts, from one on.
    __device__ void load(uint32_t from) {
        const uint32_t mine = from + member, left = parts > mine && dim < v_dim ? parts - mine : 0;
        const float *at = values + mine * step * v_dim;
#pragma unroll
        for (int a = 0; a < AHEAD; a++, at += team * step * v_dim) {
            ahead[a] = {};
            if (a * team < left) ahead[a] = *reinterpret_cast<const Vec<float> *>(at);
        }
    }

    // add adds what was asked for, by the shares that lanes have.
    __device__ void add(float (&x)[N], float share) const {
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            const float by = __shfl_sync(FULL, share, member + a * team);
#pragma unroll
            for (int e = 0; e < N; e++) x[e] += by != 0 ? ahead[a].at[e] * by : 0;
        }
    }
};

} // namespace fkv

FKV_ATTEND_KERNEL(fkv_attend_merge_f16, fkv::Merge<fkv::f16>)
FKV_ATTEND_KERNEL(fkv_attend_merge_bf16, fkv::Merge<fkv::bf16>)
FKV_ATTEND_KERNEL(fkv_attend_merge_f32, fkv::Merge<fkv::f32>)
