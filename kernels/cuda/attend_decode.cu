// Attention of items of at most FKV_DECODE_ROWS rows on tensor cores: one query of a
// larger group, or a few queries.
#include "direct.cuh"

namespace fkv {

// Every warp walks tiles of its own, so no barrier holds it back; the warps' softmaxes
// are added up at the end.
template <class T, class S, int KDIM, int VDIM> struct Decode {
    static_assert(std::is_same_v<T, Used<T, S>>, "tensor cores multiply one type");
    static constexpr int WARPS = KDIM + VDIM > 320 ? 2 : 4, THREADS = 32 * WARPS, KEYS = 16; // two stages fit a block
    static constexpr int STAGES = 2;
    // Codes become fragments without being elements in between, where registers allow it and the code is worth its bytes.
    static constexpr bool CODES = std::is_same_v<S, quant> && std::is_same_v<T, half> && KDIM % 64 == 0 && VDIM % 64 == 0 && KDIM + VDIM <= 320;
    // On a multiprocessor: 128 registers, or 168. TWO blocks of as many elements are as fast as three, and 1.08 times where more
    // sequences then need no splitting (H200).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    static constexpr int BLOCKS = KDIM + VDIM <= 128 ? 4 : 1;
#else
    static constexpr bool TWO = std::is_same_v<T, S> && KDIM + VDIM == 256;
    static constexpr int BLOCKS = KDIM + VDIM <= 128 ? 4 : TWO ? 2 : KDIM <= (CODES ? 192 : 128) && VDIM <= 128 ? 3 : 1;
#endif
    using Stream = Ring<T, S, KDIM, VDIM, KEYS, STAGES, 32, true>;
    using Fragments = Direct<KDIM, VDIM, KEYS>;
    using Result = States<WARPS, STRIP_ROWS, VDIM>;
    static constexpr int LOOKOUT = Lookout::bytes(STRIP_ROWS), QUERIES = LOOKOUT + STRIP_ROWS * QUERY_STRIDE<KDIM> * int(sizeof(T));
    static constexpr int LOADED = QUERIES + WARPS * Stream::BYTES;
    static constexpr int SHARED = LOADED > Result::BYTES ? LOADED : Result::BYTES;

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(FKV_DECODE_ROWS) || !task.writable()) return;
        FKV_SHARED(shared);
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        T *queries = reinterpret_cast<T *>(shared + LOOKOUT);
        load_queries<KDIM, STRIP_ROWS>(queries, QUERY_STRIDE<KDIM>, at.q, task, args);
        const Lookout lookout{shared};
        if (threadIdx.x == 0) lookout.note(task);
        const Span whole = span_of(task, lookout.look<STRIP_ROWS>(task, 0, warp == 0), lookout);
        constexpr bool KEPT = std::is_same_v<S, quant> && !CODES; // loops over codes that become elements have no registers for it
        if constexpr (KEPT) {
            if (threadIdx.x == 0) lookout.span() = whole;
            __syncthreads();
        }
        const Span &span = KEPT ? lookout.span() : whole;
        const Pages pages(at.table, args, task.seq, task.kv_head);
        Stream ring(shared + QUERIES + warp * Stream::BYTES, at, args, pages, span, lane, warp, WARPS);
        copy_wait<Stream::SLOTS - 1>(); // the queries are there
        __syncthreads();
        Scoring scoring(args, at.alibi, left_out<T, S>(at.k_scales, args.k_storage, task.kv_head));
        Result result{reinterpret_cast<float *>(shared)};
        bool done = false;
        if constexpr (CODES) {
            done = Fragments::can(args.k_storage, args.v_storage);
            if (done) {
                Fragments strip(queries, args, lane);
                for (int begin = warp * KEYS; begin < span.count; begin += WARPS * KEYS) {
                    float s[KEYS / 8][4];
                    bool seen = strip.weigh(s, ring.key_codes(), args.k_storage, scoring, lookout, span, begin, lane);
                    const unsigned char *values = ring.value_codes();
                    if (seen) strip.mix(s, values, args.v_storage, lane);
                }
                end(strip, result, warp, lane);
            }
        }
        if (!done) {
            Strip<T, KDIM, VDIM, KEYS, KDIM <= 128> strip(queries, lane);
            for (int begin = warp * KEYS; begin < span.count; begin += WARPS * KEYS) {
                float s[KEYS / 8][4];
                bool seen = strip.weigh(s, ring.keys(), scoring, lookout, 0, span, begin, lane);
                const T *values = ring.values();
                if (seen) strip.mix(s, values, lane);
            }
            end(strip, result, warp, lane);
        }
        __syncthreads();
        scoring = Scoring(args, at.alibi, left_out<T, S>(at.k_scales, args.k_storage, task.kv_head)); // no loop keeps it
        const float worth = left_out<T, S>(at.v_scales, args.v_storage, task.kv_head);
        result.combine(Output<T>{at, args, task}, scoring, worth, warp, WARPS, lane);
    }

    // end leaves what a warp has in the memory of queries and rings, once all are done with those.
    template <class Warp> __device__ static void end(Warp &strip, const Result &result, int warp, int lane) {
        strip.total();
        __syncthreads();
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int r = lane / 4 + half * 8;
            strip.put(result.values(warp, r), half, lane);
            if (lane % 4 == 0) {
                result.top(warp, r) = strip.top[half];
                result.sum(warp, r) = strip.sum[half];
            }
        }
    }
};

} // namespace fkv

FKV_ATTEND_DIMS(FKV_ATTEND_KIND, decode, Decode, f16, f16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, decode, Decode, bf16, bf16)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, decode, Decode, f16, quant)
FKV_ATTEND_DIMS(FKV_ATTEND_KIND, decode, Decode, bf16, quant)
