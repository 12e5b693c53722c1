// The rows of items whose keys were split: the parts' results become one.
#include "output.cuh"

namespace fkv {

// A row is merged by one warp, or by several of them where the item has fewer rows than there are warps:
// first every lane looks at the weights of all parts, then each warp reads the rows of its own parts,
// several at a time because memory is far. A part of no weight is not read.
template <class T> struct Merge {
    static constexpr int WARPS = 16, THREADS = 32 * WARPS, BLOCKS = 1, MOST_DIM = 512;
    static constexpr int N = Vec<float>::N, AHEAD = 8; // elements of a lane, and rows under way
    static constexpr int SHARED = WARPS * MOST_DIM * int(sizeof(float));

    const float *lse, *values; // of part 0
    int64_t step;              // from a part's row to the next
    uint32_t parts, v_dim;

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(FKV_PREFILL_ROWS) || !task.mergeable() || args.v_dim > MOST_DIM) return;
        FKV_SHARED(shared);
        Output<T> out{at, args, task};
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const uint32_t rows = task.item.rows;
        int each = WARPS; // warps of a row
        while (each > 1 && WARPS / each < int(rows)) each /= 2;
        const int member = warp % each;
        float *sums = reinterpret_cast<float *>(shared) + warp * MOST_DIM; // of each warp
        for (uint32_t r = warp / each; r < rows; r += WARPS / each) { // once, where each > 1
            const int64_t first = task.partial(0, r);
            const Merge row = {at.partial_lse + first, at.partial + first * args.v_dim, task.partial(1, r) - first, task.item.parts, args.v_dim};
            float top = NEG_INF, sum = 0;
            for (uint32_t part = lane; part < row.parts; part += 32) top = fmaxf(top, row.lse[part * row.step]);
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2) top = fmaxf(top, __shfl_xor_sync(FULL, top, apart));
            for (uint32_t part = lane; part < row.parts; part += 32) sum += row.weight(part, top);
#pragma unroll
            for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(FULL, sum, apart);
            Finish finish(top, sum, 1, nullptr);
            if (lane == 0 && member == 0) out.final_lse(r, finish.lse);
            const Line<T> line = each == 1 ? out.final_line(r) : Line<T>{nullptr, sums};
            row.share(member, each).put(line, top, finish.factor, lane);
        }
        if (each == 1) return;
        __syncthreads();
        if (member == 0 && warp / each < int(rows)) add_up(out.final_line(warp / each), sums, each, args.v_dim, lane);
    }

    // share is the parts number member, member+each, …
    __device__ Merge share(uint32_t member, uint32_t each) const {
        return {lse + member * step, values + member * step * v_dim, step * each, member < parts ? (parts - member - 1) / each + 1 : 0, v_dim};
    }

    // add_up writes the row that is the sum of those of some warps.
    __device__ static void add_up(const Line<T> &line, const float *sums, int each, uint32_t v_dim, int lane) {
        for (uint32_t dim = lane * N; dim < v_dim; dim += 32 * N) {
            float x[N] = {};
            for (int of = 0; of < each; of++) {
                const Vec<float> v = *reinterpret_cast<const Vec<float> *>(sums + of * MOST_DIM + dim);
#pragma unroll
                for (int e = 0; e < N; e++) x[e] += v.at[e];
            }
            line.put(dim, x);
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
