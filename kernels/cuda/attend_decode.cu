// Attention of items of at most FKV_DECODE_ROWS rows on tensor cores: one query of a
// larger group, or a few queries.
#include "strip.cuh"

namespace fkv {

// Every warp walks tiles of its own, so no barrier holds it back; the warps' softmaxes
// are added up at the end.
template <class T, class S, int KDIM, int VDIM> struct Decode {
    static_assert(std::is_same_v<T, Used<T, S>>, "tensor cores multiply one type");
    static constexpr int WARPS = KDIM + VDIM > 320 ? 2 : 4, THREADS = 32 * WARPS, KEYS = 16; // two stages fit a block
    static constexpr int STAGES = 2;
    // On a multiprocessor: 128 registers, or 168.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    static constexpr int BLOCKS = KDIM + VDIM <= 128 ? 4 : 1;
#else
    static constexpr int BLOCKS = KDIM + VDIM <= 128 ? 4 : KDIM <= 128 && VDIM <= 128 ? 3 : 1;
#endif
    using Stream = Ring<T, S, KDIM, VDIM, KEYS, STAGES, 32, STRIP_PAD>;
    using Result = States<WARPS, STRIP_ROWS, VDIM>;
    static constexpr int LOOKOUT = Lookout::bytes(STRIP_ROWS), QUERIES = LOOKOUT + STRIP_ROWS * Stream::KEY_STRIDE * int(sizeof(T));
    static constexpr int LOADED = QUERIES + WARPS * Stream::BYTES;
    static constexpr int SHARED = LOADED > Result::BYTES ? LOADED : Result::BYTES;

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        Task task(at, args);
        if (!task.read(FKV_DECODE_ROWS) || !task.writable()) return;
        FKV_SHARED(shared);
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const Lookout lookout{shared};
        if (threadIdx.x == 0) lookout.note(task);
        const Span span = span_of(task, lookout.look<STRIP_ROWS>(task, 0, warp == 0), lookout);
        Stream ring(shared + QUERIES + warp * Stream::BYTES, at, args,
                    Pages(at.table, args, task.seq, task.kv_head), span, lane, warp, WARPS);
        T *queries = reinterpret_cast<T *>(shared + LOOKOUT);
        load_queries<KDIM, STRIP_ROWS>(queries, Stream::KEY_STRIDE, at.q, task, args);
        __syncthreads();
        Scoring scoring(args, at.alibi, left_out<T, S>(at.k_scales, args.k_storage, task.kv_head));
        Strip<T, KDIM, VDIM, KEYS> strip(queries, lane);
        for (int begin = warp * KEYS; begin < span.count; begin += WARPS * KEYS) {
            float s[KEYS / 8][4];
            bool seen = strip.weigh(s, ring.keys(), scoring, lookout, 0, span, begin, lane);
            const T *values = ring.values();
            if (seen) strip.mix(s, values, lane);
        }
        strip.total();
        __syncthreads(); // queries and rings are done with
        Result result{reinterpret_cast<float *>(shared)};
        end(strip, result, warp, lane);
        __syncthreads();
        const float worth = left_out<T, S>(at.v_scales, args.v_storage, task.kv_head);
        result.combine(Output<T>{at, args, task}, scoring, worth, warp, WARPS, lane);
    }

    __device__ static void end(const Strip<T, KDIM, VDIM, KEYS> &strip, const Result &result, int warp, int lane) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int r = lane / 4 + half * 8;
#pragma unroll
            for (int n = 0; n < VDIM / 8; n++) {
                float pair[2] = {strip.o[n][2 * half], strip.o[n][2 * half + 1]};
                store(result.values(warp, r) + n * 8 + lane % 4 * 2, pair);
            }
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
