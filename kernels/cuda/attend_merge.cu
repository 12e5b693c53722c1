// The rows of items whose keys were split: the parts' results become one.
#include "output.cuh"

namespace fkv {

// Each warp merges rows of its own: first every lane looks at the weights of its parts, then
// all of them read the parts' rows, several at a time because memory is far. A part of no
// weight is not read.
template <class T> struct Merge {
    static constexpr int WARPS = 4, THREADS = 32 * WARPS, BLOCKS = 1, SHARED = 0;
    static constexpr int N = Vec<float>::N, AHEAD = 8; // elements of a lane, and rows under way

    const float *lse, *values; // of part 0
    int64_t step;              // from a part's row to the next
    uint32_t parts, v_dim;

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(args.table_stride > 1, FKV_PREFILL_ROWS) || !task.mergeable()) return;
        Output<T> out{at, args, task};
        int lane = threadIdx.x % 32;
        for (uint32_t r = threadIdx.x / 32; r < task.item.rows; r += WARPS) {
            const int64_t first = task.partial(0, r);
            Merge row = {at.partial_lse + first, at.partial + first * args.v_dim, task.partial(1, r) - first, task.item.parts, args.v_dim};
            float top = NEG_INF, sum = 0;
            for (uint32_t part = lane; part < row.parts; part += 32) top = fmaxf(top, row.lse[part * row.step]);
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2) top = fmaxf(top, __shfl_xor_sync(FULL, top, apart));
            for (uint32_t part = lane; part < row.parts; part += 32) sum += row.weight(part, top);
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(FULL, sum, apart);
            Finish finish(top, sum, 1, nullptr);
            if (lane == 0) out.final_lse(r, finish.lse);
            row.put(out.final_line(r), top, finish.factor, lane);
        }
    }

    __device__ float weight(uint32_t part, float top) const {
        float x = lse[part * step];
        return x == NEG_INF ? 0 : exp2_fast((x - top) * LOG2E);
    }

    // put writes the row.
    __device__ void put(const Line<T> &line, float top, float factor, int lane) const {
        for (uint32_t begin = 0; begin < v_dim; begin += 32 * N) {
            const uint32_t dim = begin + lane * N;
            float x[N] = {};
            for (uint32_t first = 0; first < parts; first += 32) {
                const float share = first + lane < parts ? weight(first + lane, top) * factor : 0;
                const uint32_t end = min(parts - first, 32u);
#pragma unroll 1
                for (uint32_t part = 0; part < end; part += AHEAD) add(x, share, first, part, dim);
            }
            if (dim < v_dim) line.put(dim, x);
        }
    }

    // add adds dims [dim, dim+N) of AHEAD parts, by the shares that lanes have.
    __device__ void add(float (&x)[N], float share, uint32_t first, uint32_t part, uint32_t dim) const {
        float by[AHEAD];
        Vec<float> v[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
            by[a] = __shfl_sync(FULL, share, part + a);
            v[a] = {};
            if (by[a] != 0 && dim < v_dim) {
                v[a] = *reinterpret_cast<const Vec<float> *>(values + (first + part + a) * step * v_dim + dim);
            }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; a++) {
#pragma unroll
            for (int e = 0; e < N; e++) x[e] += v[a].at[e] * by[a];
        }
    }
};

} // namespace fkv

FKV_ATTEND_KERNEL(fkv_attend_merge_f16, fkv::Merge<fkv::f16>)
FKV_ATTEND_KERNEL(fkv_attend_merge_bf16, fkv::Merge<fkv::bf16>)
FKV_ATTEND_KERNEL(fkv_attend_merge_f32, fkv::Merge<fkv::f32>)
