// The rows of items whose keys were split: the parts' results become one.
#include "output.cuh"

namespace fkv {

// Each warp merges rows of its own. A part of no weight is not read.
template <class T> struct Merge {
    static constexpr int WARPS = 4, THREADS = 32 * WARPS, BLOCKS = 1, SHARED = 0, N = Vec<T>::N;

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(args.table_stride > 1, FKV_PREFILL_ROWS) || !task.mergeable()) return;
        Output<T> out{at, args, task};
        int lane = threadIdx.x % 32;
        for (uint32_t r = threadIdx.x / 32; r < task.item.rows; r += WARPS) {
            float top = NEG_INF, sum = 0;
            for (uint32_t part = 0; part < task.item.parts; part++) top = fmaxf(top, at.partial_lse[task.partial(part, r)]);
            for (uint32_t part = 0; part < task.item.parts; part++) sum += weight(at.partial_lse[task.partial(part, r)], top);
            Finish finish(top, sum, 1, nullptr);
            if (lane == 0) out.final_lse(r, finish.lse);
            Line<T> line = out.final_line(r);
            for (int dim = lane * N; dim < int(args.v_dim); dim += 32 * N) {
                float x[N] = {};
                for (uint32_t part = 0; part < task.item.parts; part++) {
                    int64_t row = task.partial(part, r);
                    float share = weight(at.partial_lse[row], top) * finish.factor;
                    if (share != 0) add(x, at.partial + row * args.v_dim + dim, share);
                }
                line.put(dim, x);
            }
        }
    }

    __device__ static float weight(float lse, float top) { return lse == NEG_INF ? 0 : exp2_fast((lse - top) * LOG2E); }

    __device__ static void add(float (&x)[N], const float *row, float share) {
#pragma unroll
        for (int i = 0; i < N; i += Vec<float>::N) {
            Vec<float> v = *reinterpret_cast<const Vec<float> *>(row + i);
#pragma unroll
            for (int e = 0; e < Vec<float>::N; e++) x[i + e] += v.at[e] * share;
        }
    }
};

} // namespace fkv

FKV_ATTEND_KERNEL(fkv_attend_merge_f16, fkv::Merge<fkv::f16>)
FKV_ATTEND_KERNEL(fkv_attend_merge_bf16, fkv::Merge<fkv::bf16>)
FKV_ATTEND_KERNEL(fkv_attend_merge_f32, fkv::Merge<fkv::f32>)
