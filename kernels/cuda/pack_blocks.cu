// Conversion of whole blocks between a plane of activations and a quantized one.
#include "warp_row.cuh"

namespace {

constexpr unsigned WARPS = 4, THREADS = 32 * WARPS;

// Channels is a head of a block on its way to the type whose channels have a word each: every
// lane has a unit of channels, over all of the block's tokens, or every second one where two rows fit.
template <class T> struct Channels {
    const T *rows; // [block_size, dim]
    const fkv::Packed &to;
    fkv::Place block;
    uint32_t head;
    bool turned, saturate;

    // each gives f the rows, as many at once as fit.
    template <class F> __device__ void each(F f) const {
        if (turned) {
            each_of<true, 1>(f);
        } else {
            each_of<false, 1>(f);
        }
    }

    // each_of can read rows ahead, where they are not turned first, which takes much code.
    template <bool TURNED, int AHEAD, class F> __device__ void each_of(F f) const {
        const uint32_t width = fkv::width_of(to.dim), lane = threadIdx.x % 32;
#pragma unroll(AHEAD)
        for (uint32_t first = 0; first < to.block_size; first += 32 / width) {
            const uint32_t token = first + lane / width;
            fkv::WarpRow<1> row(to.dim, width, token < to.block_size);
            row.load(rows + static_cast<int64_t>(token) * to.dim);
            if (TURNED) row.hadamard();
            f(token, row);
        }
    }

    // most is the largest of the lanes that have the same channels.
    __device__ float most(float x) const {
        return fkv::width_of(to.dim) == 32 ? x : fmaxf(x, __shfl_xor_sync(fkv::FULL, x, 16));
    }

    // pack is false where a channel has a value that is not finite, and was not to be saturated.
    __device__ bool pack() const {
        constexpr fkv::Storage type{FKV_STORAGE_INT4CHANNEL};
        float zero[fkv::UNIT], size[fkv::UNIT], low[fkv::UNIT], high[fkv::UNIT]; // zero is NaN of what is not finite
#pragma unroll
        for (int i = 0; i < fkv::UNIT; i++) zero[i] = 0, size[i] = 0, low[i] = INFINITY, high[i] = -INFINITY;
        const auto widen = [&](uint32_t, const fkv::WarpRow<1> &row) {
#pragma unroll
            for (int i = 0; row.there && i < fkv::UNIT; i++) {
                zero[i] = fmaf(row.x[0][i], 0, zero[i]);
                low[i] = fminf(low[i], row.x[0][i]), high[i] = fmaxf(high[i], row.x[0][i]);
            }
        };
        if (turned) {
            each_of<true, 1>(widen);
        } else {
            each_of<false, 4>(widen); // from far away
        }
        bool strange = false;
#pragma unroll
        for (int i = 0; i < fkv::UNIT; i++) {
            zero[i] = most(zero[i] != 0 ? 1 : 0);
            strange = strange || zero[i] != 0;
        }
        strange = !__all_sync(fkv::FULL, !strange);
        if (strange) saturated_range(size, low, high);
        const uint32_t lane = threadIdx.x % 32;
        const uint32_t unit = lane % fkv::width_of(to.dim);
        const bool mine = unit * fkv::UNIT < to.dim;
        uint32_t *words = to.scales + (block.block * to.heads + head) * to.dim + unit * fkv::UNIT;
        fkv::Divisor steps[fkv::UNIT];
        float zeros[fkv::UNIT];
#pragma unroll
        for (int i = 0; i < fkv::UNIT; i++) {
            const float top = most(high[i]), bottom = -most(-low[i]);
            const uint32_t word = zero[i] == 0 || saturate ? type.word(mine ? bottom : 0, mine ? top : 0) : type.no_number();
            const fkv::Scale scale = type.scale(word);
            steps[i] = fkv::Divisor(scale.step), zeros[i] = scale.zero;
            if (lane == unit && mine) words[i] = word;
        }
        each([&](uint32_t token, const fkv::WarpRow<1> &row) {
            uint32_t codes[fkv::UNIT];
#pragma unroll
            for (int i = 0; i < fkv::UNIT; i++) {
                const float x = strange ? fkv::saturated(row.x[0][i], size[i]) : row.x[0][i];
                codes[i] = type.integer(x, steps[i], zeros[i]);
            }
            const int64_t at = fkv::row_at({block.block, token}, to.heads, head, to.block_size);
            if (row.mine(0)) fkv::store_codes(to.unit(at, unit), codes, true);
        });
        return saturate || !strange;
    }

    // saturated_range is the range of a channel once infinities have the largest finite magnitude, size.
    __device__ void saturated_range(float (&size)[fkv::UNIT], float (&low)[fkv::UNIT], float (&high)[fkv::UNIT]) const {
        each([&](uint32_t, const fkv::WarpRow<1> &row) {
#pragma unroll
            for (int i = 0; i < fkv::UNIT; i++) {
                if (fkv::finite(row.x[0][i])) size[i] = fmaxf(size[i], fabsf(row.x[0][i]));
            }
        });
#pragma unroll
        for (int i = 0; i < fkv::UNIT; i++) size[i] = most(size[i]), low[i] = INFINITY, high[i] = -INFINITY;
        each([&](uint32_t, const fkv::WarpRow<1> &row) {
#pragma unroll
            for (int i = 0; row.there && i < fkv::UNIT; i++) {
                const float x = fkv::saturated(row.x[0][i], size[i]);
                low[i] = fminf(low[i], x), high[i] = fmaxf(high[i], x);
            }
        });
    }
};

// each_part gives f the blocks of every pair, head by head, in so many parts of a head, of which a warp has one at
// once, or two. Where there is none left for its second half, that has the last one again, and is told so.
template <class Args, class F>
__device__ inline void each_part(const uint32_t *pairs, const Args &args, uint32_t parts, uint32_t width, F f) {
    const uint32_t once = 32 / width, warp = threadIdx.x / 32, mine = threadIdx.x % 32 / width;
    const uint64_t all = uint64_t(args.kv_heads) * parts;
    if ((blockIdx.y * WARPS + warp) * once >= all) return; // before it waits for a pair
    for (uint64_t i = blockIdx.x; i < args.pairs; i += gridDim.x) {
        const uint64_t from = pairs[2 * i], to = pairs[2 * i + 1];
        if (from >= args.from_blocks || to >= args.to_blocks) continue;
        for (uint64_t first = (blockIdx.y * WARPS + warp) * once; first < all; first += gridDim.y * WARPS * once) {
            const uint64_t n = min(first + mine, all - 1);
            f(from, to, uint32_t(n / parts), uint32_t(n % parts), first + mine < all);
        }
    }
}

template <int DECKS, class T>
__device__ inline void pack_blocks(const T *from, const fkv::Packed &to, const uint32_t *pairs, uint32_t *status,
                                   const fkv_pack_blocks_args &args) {
    const bool turned = args.flags & FKV_HADAMARD, saturate = args.flags & FKV_SATURATE;
    const auto report = [&](bool good) {
        if (!good && threadIdx.x % 32 == 0) atomicOr(status, args.of);
    };
    if (DECKS == 1 && to.type.channels()) {
        each_part(pairs, args, 1, 32, [&](uint64_t source, uint64_t block, uint32_t head, uint32_t, bool) {
            const T *rows = from + fkv::row_at({source, 0}, args.kv_heads, head, args.block_size) * args.dim;
            report(Channels<T>{rows, to, {block, 0}, head, turned, saturate}.pack());
        });
        return;
    }
    const uint32_t width = DECKS == 1 ? fkv::width_of(args.dim) : 32;
    each_part(pairs, args, args.block_size, width, [&](uint64_t source, uint64_t block, uint32_t head, uint32_t token, bool there) {
        fkv::WarpRow<DECKS> row(args.dim, width, there);
        row.load(from + fkv::row_at({source, token}, args.kv_heads, head, args.block_size) * args.dim);
        if (turned) row.hadamard();
        report(row.pack(to, {block, token}, head, saturate));
    });
}

template <int DECKS, class T>
__device__ inline void unpack_blocks(const fkv::Packed &from, T *to, const uint32_t *pairs, const fkv_unpack_blocks_args &args) {
    const uint32_t width = DECKS == 1 ? fkv::width_of(args.dim) : 32;
    each_part(pairs, args, args.block_size, width, [&](uint64_t source, uint64_t block, uint32_t head, uint32_t token, bool there) {
        fkv::WarpRow<DECKS> row(args.dim, width, there);
        row.unpack(from, {source, token}, head);
        if (args.flags & FKV_HADAMARD) row.hadamard();
        row.bound(fkv::MOST_OF<T>); // a code may be worth more
        row.store(to + fkv::row_at({block, token}, args.kv_heads, head, args.block_size) * args.dim);
    });
}

} // namespace

// A warp has a row at a time, or two short ones, or all rows of a head and block where channels share words.
//
// Grid: x over pairs; y over the rows of a block, kv_heads*block_size, 4 or 8 a block of the grid.
// Any grid is right. Planes are as in append_quant.
#define PACK_BLOCKS(type, T, DECKS)                                                                                  \
    FKV_KERNEL(fkv_pack_blocks_##type, THREADS, 0, const T *from, unsigned char *to, uint32_t *scales,               \
               const uint32_t *pairs, uint32_t *status, fkv_pack_blocks_args args) {                                 \
        pack_blocks<DECKS>(from, {to, scales, {args.storage}, args.kv_heads, args.block_size, args.dim}, pairs, status, args); \
    }                                                                                                                \
    FKV_KERNEL(fkv_unpack_blocks_##type, THREADS, 0, unsigned char *from, uint32_t *scales, T *to,                   \
               const uint32_t *pairs, fkv_unpack_blocks_args args) {                                                 \
        unpack_blocks<DECKS>({from, scales, {args.storage}, args.kv_heads, args.block_size, args.dim}, to, pairs, args);    \
    }

PACK_BLOCKS(f16, fkv::half, 1)
PACK_BLOCKS(bf16, fkv::bfloat, 1)
PACK_BLOCKS(f32, float, 1)
PACK_BLOCKS(long_f16, fkv::half, fkv::LONG)
PACK_BLOCKS(long_bf16, fkv::bfloat, fkv::LONG)
PACK_BLOCKS(long_f32, float, fkv::LONG)
