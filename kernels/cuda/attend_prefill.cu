// Attention of items of up to FKV_PREFILL_ROWS rows on tensor cores: prompts, and the
// chunks of prompts against what is cached. The algorithm is FlashAttention-2's
// (arXiv:2307.08691).
#include "strip.cuh"

namespace fkv {

// The warps share the tiles and have 16 rows each; the rows of different heads and
// queries of a group are packed, so that none of the 64 is idle for a lack of queries.
template <class T, class S, int KDIM, int VDIM> struct Prefill {
    static_assert(std::is_same_v<T, Used<T, S>>, "tensor cores multiply one type");
    static constexpr int WARPS = FKV_PREFILL_ROWS / STRIP_ROWS, THREADS = 32 * WARPS;
    // A third block on a multiprocessor hides what two wait for, and has room where queries stay in shared memory: 1.13 to 1.19
    // times as fast on an H200.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    static constexpr int BLOCKS = 1;
#else
    static constexpr int BLOCKS = !std::is_same_v<T, S> || KDIM > 128 || VDIM > 128 ? 1 : KDIM + VDIM <= 128 ? 4 : 3;
#endif
    // Of tiles, as many keys as shared memory has room for, and fewer where decoding takes registers.
    static constexpr int KEYS = KDIM > 192 && std::is_same_v<S, quant> ? 16 : KDIM > 128 ? 32 : 64, STAGES = 1;
    using Stream = Ring<T, S, KDIM, VDIM, KEYS, STAGES, THREADS, true>;
    using Rows = Strip<T, KDIM, VDIM, KEYS, KDIM <= 128 && BLOCKS == 1>;
    static constexpr int LOOKOUT = Lookout::bytes(FKV_PREFILL_ROWS), QUERIES = LOOKOUT + FKV_PREFILL_ROWS * QUERY_STRIDE<KDIM> * int(sizeof(T));
    static constexpr int SHARED = QUERIES + Stream::BYTES;

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(FKV_PREFILL_ROWS) || !task.writable()) return;
        FKV_SHARED(shared);
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32, from = warp * STRIP_ROWS;
        T *queries = reinterpret_cast<T *>(shared + LOOKOUT);
        load_queries<KDIM, FKV_PREFILL_ROWS>(queries, QUERY_STRIDE<KDIM>, at.q, task, args);
        const Lookout lookout{shared};
        if (threadIdx.x == 0) lookout.note(task);
        lookout.look<STRIP_ROWS>(task, from, true); // each warp its own
        const Span whole = span_of(task, lookout.look<FKV_PREFILL_ROWS>(task, 0, false), lookout);
        if (threadIdx.x == 0) { // the loop has no registers for them
            lookout.span() = whole;
            lookout.pages() = Pages(at.table, args, task.seq, task.kv_head);
        }
        __syncthreads();
        const Span &span = lookout.span();
        Stream ring(shared + QUERIES, at, args, lookout.pages(), span, threadIdx.x, 0, 1);
        copy_wait<Stream::SLOTS - 1>(); // the queries are there
        __syncthreads();
        Scoring scoring(args, at.alibi, left_out<T, S>(at.k_scales, args.k_storage, task.kv_head));
        Rows strip(queries + from * QUERY_STRIDE<KDIM>, lane);
        for (int begin = 0; begin < span.count; begin += KEYS) {
            float s[KEYS / 8][4];
            bool seen = strip.weigh(s, ring.keys(), scoring, lookout, from, span, begin, lane);
            const T *values = ring.values();
            if (seen) strip.mix(s, values, lane);
        }
        strip.total();
        Task same(at, args); // read again: what it says is not held in registers meanwhile
        if (same.read(FKV_PREFILL_ROWS) && same.writable()) end(strip, Output<T>{at, args, same}, scoring, from, lane);
    }

    __device__ static void end(const Rows &strip, const Output<T> &out, const Scoring &scoring, int from, int lane) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            uint32_t r = from + lane / 4 + half * 8;
            if (r >= out.task.item.rows) continue;
            Finish finish(strip.top[half], strip.sum[half], scoring.natural, out.sink(r));
            if (lane % 4 == 0) out.lse(r, finish.lse);
            const float factor = finish.factor * left_out<T, S>(out.at.v_scales, out.args.v_storage, out.task.kv_head);
            Line<T> line = out.line(r);
#pragma unroll
            for (int n = 0; n < VDIM / 8; n++) {
                float pair[2] = {strip.o[n][2 * half] * factor, strip.o[n][2 * half + 1] * factor};
                line.put(n * 8 + lane % 4 * 2, pair);
            }
        }
    }
};

} // namespace fkv

FKV_ATTEND_DIMS(FKV_ATTEND_KIND, prefill, Prefill, f16, f16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, prefill, Prefill, bf16, bf16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, prefill, Prefill, f16, quant)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, prefill, Prefill, bf16, quant)
