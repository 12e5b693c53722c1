// Attention of items of at most FKV_DECODE_ROWS rows over codes, with the operands of matrix instructions swapped: S^T = K Q^T and
// O^T = V^T P^T, 8 rows of an item at a time.
#include "swap_elements.cuh"
#include "swap_nibbles.cuh"
#include "swap_ring.cuh"
#include "swap_strip.cuh"

namespace fkv {

// Kept is a task, and what makes its scores, in shared memory: loops have no registers for them.
struct Kept {
    fkv_attend_item item;
    uint32_t first; // of the rows that are at work
    Sequence own;
    uint32_t kv_head, group, seq, slots;
    int ctx;
    bool shared;
    Scoring scoring;

    __device__ void keep(const Task &task) {
        item = task.item, first = 0, own = task.own, kv_head = task.kv_head, group = task.group;
        seq = task.seq, slots = task.slots, ctx = task.ctx, shared = task.shared;
        scoring = Scoring(task.args, task.at.alibi, left_out<half, quant>(task.at.k_scales, task.args.k_storage, kv_head));
    }

    // part is the task of the rows that are at work, up to 8, as an item of theirs.
    __device__ Task part(const Operands &at, const fkv_attend_args &args) const {
        Task task(at, args);
        task.item = item, task.own = own, task.kv_head = kv_head, task.group = group;
        task.seq = seq, task.slots = slots, task.ctx = ctx, task.shared = shared;
        task.item.row += first, task.item.rows = min(item.rows - first, uint32_t(SWAP_ROWS));
        task.item.base += first + item.part * (item.rows - task.item.rows); // rows of other parts are as far away as before
        return task;
    }
};

// Every warp walks tiles of its own, so no barrier holds it back; the warps' softmaxes are added up at the end. Each pair of
// equal types has a loop of its own, which fits an instruction cache; other pairs become elements first.
template <class T, class S, int KDIM, int VDIM> struct Swap {
    static_assert(std::is_same_v<T, half> && std::is_same_v<S, quant> && KDIM == SWAP_DIM && VDIM == SWAP_DIM);
    static constexpr int WARPS = SWAP_WARPS, THREADS = 32 * WARPS, BLOCKS = 4; // of 128 registers
    using Elements = Ring<half, quant, SWAP_DIM, SWAP_DIM, 16, 2, 32, true>;
    using Codes = Pieces<ByteKeys<SIGNED>, ByteValues<SIGNED>>;
    using Result = States<WARPS, SWAP_ROWS, SWAP_DIM>;
    static constexpr int TASK = SWAP_TOTALS + SWAP_WARPS * SWAP_ROWS * int(sizeof(float));
    static constexpr int RINGS = whole_lines(TASK + int(sizeof(Kept)));
    static constexpr int RING = Elements::BYTES > Codes::BYTES ? Elements::BYTES : Codes::BYTES, SHARED = RINGS + WARPS * RING;
    static_assert(WARPS * RING >= Result::BYTES && BLOCKS * (SHARED + 1024) <= 228 * 1024, "blocks of a multiprocessor of 9.0");

    __device__ static void run(const Operands &at, const fkv_attend_args &args) {
        FKV_SHARED(shared);
        Kept &kept = *reinterpret_cast<Kept *>(shared + TASK);
        {
            Task task(at, args);
            if (!task.read(FKV_DECODE_ROWS) || !task.writable()) return;
            if (threadIdx.x == 0) kept.keep(task);
        }
        __syncthreads();
        while (true) {
            eight(at, args, kept);
            if (kept.first + SWAP_ROWS >= kept.item.rows) return;
            __syncthreads();
            if (threadIdx.x == 0) kept.first += SWAP_ROWS;
            __syncthreads();
        }
    }

  private:
    __device__ static void eight(const Operands &at, const fkv_attend_args &args, const Kept &kept) {
        FKV_SHARED(shared);
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        look(kept.part(at, args), warp);
        __syncthreads();
        switch (args.k_storage == args.v_storage ? args.k_storage : 0) {
        case FKV_STORAGE_INT8: walk<ByteKeys<SIGNED>, ByteValues<SIGNED>>(at, args, warp, lane); break;
        case FKV_STORAGE_INT8ASYM: walk<ByteKeys<UNSIGNED>, ByteValues<UNSIGNED>>(at, args, warp, lane); break;
        case FKV_STORAGE_FP8E4M3: walk<ByteKeys<E4M3>, ByteValues<E4M3>>(at, args, warp, lane); break;
        case FKV_STORAGE_FP8E5M2: walk<ByteKeys<E5M2>, ByteValues<E5M2>>(at, args, warp, lane); break;
        case FKV_STORAGE_INT4:
        case FKV_STORAGE_INT4G64: walk<NibbleKeys, NibbleValues>(at, args, warp, lane); break;
        default: walk<Elements, ElementKeys, ElementValues, 16, 0>(at, args, warp, lane);
        }
        __syncthreads();
        const Task task = kept.part(at, args);
        const float worth = left_out<half, quant>(at.v_scales, args.v_storage, task.kv_head);
        Result{reinterpret_cast<float *>(shared + RINGS)}.combine(Output<half>{at, args, task}, kept.scoring, worth, warp, WARPS, lane);
    }

    __device__ static void look(const Task &task, int warp) {
        FKV_SHARED(shared);
        load_queries<SWAP_DIM, SWAP_ROWS>(reinterpret_cast<half *>(shared + SWAP_QUERIES), SWAP_STRIDE, task.at.q, task, task.args);
        const Lookout lookout{shared};
        if (threadIdx.x == 0) lookout.note(task);
        const Span whole = span_of(task, lookout.look<SWAP_ROWS>(task, 0, warp == 0), lookout);
        if (threadIdx.x == 0) { // loops have no registers for them
            lookout.span() = whole;
            lookout.pages() = Pages(task.at.table, task.args, task.seq, task.kv_head);
        }
    }

    template <class Keys, class Values> __device__ static void walk(const Operands &at, const fkv_attend_args &args, int warp, int lane) {
        walk<Pieces<Keys, Values>, Keys, Values, SWAP_KEYS, 1>(at, args, warp, lane);
    }

    // walk goes through a warp's tiles, and BEFORE of them that are not there.
    template <class Stream, class Keys, class Values, int TILE, int BEFORE>
    __device__ static void walk(const Operands &at, const fkv_attend_args &args, int warp, int lane) {
        FKV_SHARED(shared);
        const int first = warp - BEFORE * WARPS;
        const Lookout lookout{shared};
        const Span &span = lookout.span();
        Stream ring(shared + RINGS + warp * RING, at, args, lookout.pages(), span, lane, first, WARPS);
        copy_wait<BEFORE ? 0 : Stream::SLOTS - 1>(); // the queries are there
        __syncthreads();
        const Scoring &scoring = reinterpret_cast<const Kept *>(shared + TASK)->scoring;
        Swapped<Keys, Values, TILE> strip(reinterpret_cast<const half *>(shared + SWAP_QUERIES), lane);
#pragma unroll 1
        while (ring.tile * TILE < span.count) {
            typename Swapped<Keys, Values, TILE>::Scores s;
            const auto *keys = ring.keys();
            const bool seen = strip.weigh(s, keys, args.k_storage, scoring, lookout, span, ring.tile * TILE, lane);
            const auto *values = ring.values();
            if (seen) strip.mix(s, values, args.v_storage, lane);
        }
        strip.end();
        __syncthreads(); // all are done with the rings, in whose memory the results come
        const Result result{reinterpret_cast<float *>(shared + RINGS)};
        lane = int(unknown(lane)); // else addresses are worked out in front of all loops
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int r = lane % 4 * 2 + h;
            strip.values.put(result.values(warp, r), h, lane);
            if (lane / 4 == 0) result.top(warp, r) = strip.top[h], result.sum(warp, r) = strip.sum[h];
        }
    }
};

} // namespace fkv

FKV_ATTEND_KIND(decode, Swap, f16, quant, 128, 128)
