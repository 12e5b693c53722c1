// Attention over a latent cache (MLA; DeepSeek-V2, arXiv:2405.04434) on tensor cores: one plane, whose first
// elements are the values, too, so that a tile is read once for both.
#include "strip.cuh"

namespace fkv {

// The four warps share the tiles. A tile's keys are too long for one warp's registers and time: two warps have every
// other 16 of each key's elements, the other two those of the other 16 keys. The sums meet in shared memory, all warps
// make the same weights of them, and each mixes a quarter of the values' columns.
template <class T, class S, int KDIM, int VDIM> struct Latent {
    static_assert(std::is_same_v<T, Used<T, S>>, "tensor cores multiply one type");
    static constexpr int WARPS = 4, THREADS = 32 * WARPS, BLOCKS = 1, KEYS = 32, STAGES = 2;
    static constexpr int COLUMNS = VDIM / WARPS;
    static_assert(KDIM % 32 == 0 && COLUMNS % 64 == 0, "whole fragments, and as many pieces as change places");
    using Stream = Ring<T, S, KDIM, 0, KEYS, STAGES, THREADS, true>;
    static constexpr int STRIDE = QUERY_STRIDE<KDIM>;
    static constexpr int ROOM = KEYS + 8; // of a row of sums: two rows of a fragment are in other banks
    static constexpr int LOOKOUT = Lookout::bytes(STRIP_ROWS), SUMS = LOOKOUT + 2 * STRIP_ROWS * ROOM * int(sizeof(float));
    static constexpr int QUERIES = SUMS + STRIP_ROWS * STRIDE * int(sizeof(T)), SHARED = QUERIES + Stream::BYTES;
    static_assert(SHARED <= 99 * 1024, "what a block may have on every device from 8.0 on");

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(FKV_DECODE_ROWS) || !task.writable()) return;
        FKV_SHARED(shared);
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        T *queries = reinterpret_cast<T *>(shared + SUMS);
        load_queries<KDIM, STRIP_ROWS>(queries, STRIDE, at.q, task, args);
        const Lookout lookout{shared};
        if (threadIdx.x == 0) lookout.note(task);
        const Span span = span_of(task, lookout.look<STRIP_ROWS>(task, 0, warp == 0), lookout);
        const Pages pages(at.table, args, task.seq, task.kv_head);
        Stream ring(shared + QUERIES, at, args, pages, span, threadIdx.x, 0, 1);
        copy_wait<Stream::SLOTS - 1>(); // the queries are there
        __syncthreads();
        const float worth = left_out<T, S>(at.k_scales, args.k_storage, task.kv_head);
        Scoring scoring(args, at.alibi, worth);
        const Queries<T, KDIM, false, 2> mine(queries, lane, warp % 2);
        float *sums = reinterpret_cast<float *>(shared + LOOKOUT);
        Weights<T, COLUMNS, KEYS, KDIM> weights;
        for (int begin = 0; begin < span.count; begin += KEYS) {
            const T *keys = ring.keys();
            if (weights.none(lookout, 0, span, begin)) continue;
            float part[2][4];
            mine.template multiply<16>(part, keys + warp / 2 * 16 * KDIM, lane);
            put(sums + warp % 2 * STRIP_ROWS * ROOM + warp / 2 * 16, part, lane);
            __syncthreads();
            float s[KEYS / 8][4];
            add_up(s, sums, lane);
            weights.weigh(s, scoring, lookout, 0, span, begin, lane);
            weights.mix(s, keys + warp * COLUMNS, lane);
        }
        weights.total();
        end(weights, Output<T>{at, args, task}, scoring, worth, warp, lane);
    }

    // put keeps the sums of 16 keys over a half of their elements.
    __device__ static void put(float *to, const float (&part)[2][4], int lane) {
#pragma unroll
        for (int n = 0; n < 2; n++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float pair[2] = {part[n][2 * half], part[n][2 * half + 1]};
                store(to + (lane / 4 + half * 8) * ROOM + n * 8 + lane % 4 * 2, pair);
            }
        }
    }

    // add_up is the products of the tile's keys, as fragments.
    __device__ static void add_up(float (&s)[KEYS / 8][4], const float *sums, int lane) {
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float *at = sums + (lane / 4 + half * 8) * ROOM + n * 8 + lane % 4 * 2;
                const Run<float, 2> first = load_run<2>(at), second = load_run<2>(at + STRIP_ROWS * ROOM);
#pragma unroll
                for (int e = 0; e < 2; e++) s[n][2 * half + e] = first.at[e] + second.at[e];
            }
        }
    }

    __device__ static void end(const Weights<T, COLUMNS, KEYS, KDIM> &weights, const Output<T> &out, const Scoring &scoring,
                               float worth, int warp, int lane) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t r = lane / 4 + half * 8;
            if (r >= out.task.item.rows) continue;
            Finish finish(weights.top[half], weights.sum[half], scoring.natural, out.sink(r));
            if (warp == 0 && lane % 4 == 0) out.lse(r, finish.lse);
            const float factor = finish.factor * worth;
            Line<T> line = out.line(r);
#pragma unroll
            for (int n = 0; n < COLUMNS / 8; n++) {
                float pair[2] = {weights.o[n][2 * half] * factor, weights.o[n][2 * half + 1] * factor};
                line.put(warp * COLUMNS + n * 8 + lane % 4 * 2, pair);
            }
        }
    }
};

} // namespace fkv

FKV_ATTEND_KIND(decode, Latent, f16, f16, 576, 512)
FKV_ATTEND_KIND(decode, Latent, bf16, bf16, 576, 512)
FKV_ATTEND_KIND(decode, Latent, f16, quant, 576, 512)
FKV_ATTEND_KIND(decode, Latent, bf16, quant, 576, 512)
