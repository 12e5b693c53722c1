// Conversion of whole blocks between a plane of activations and a quantized one.
#include "warp_row.cuh"

namespace {

constexpr unsigned WARPS = 4, THREADS = 32 * WARPS;

// Channels is a head of a block on its way to a type whose channels have a word each: every
// lane has a unit of channels, over all of the block's tokens.
template <class T> struct Channels {
    const T *rows; // [block_size, dim]
    const fkv::Packed &to;
    fkv::Place block;
    uint32_t head;
    bool turned, saturate;

    // each gives f the rows one by one.
    template <class F> __device__ void each(F f) const {
        for (uint32_t token = 0; token < to.block_size; token++) {
            fkv::WarpRow<1> row(to.dim);
            row.load(rows + static_cast<int64_t>(token) * to.dim);
            if (turned) row.hadamard();
            f(token, row);
        }
    }

    // pack is false where a channel has a value that is not finite, and was not to be saturated.
    __device__ bool pack() const {
        bool good[fkv::UNIT];
        float size[fkv::UNIT], low[fkv::UNIT], high[fkv::UNIT]; // size is the largest finite magnitude
#pragma unroll
        for (int i = 0; i < fkv::UNIT; i++) good[i] = true, size[i] = 0, low[i] = INFINITY, high[i] = -INFINITY;
        each([&](uint32_t, const fkv::WarpRow<1> &row) {
#pragma unroll
            for (int i = 0; i < fkv::UNIT; i++) {
                good[i] = good[i] && fkv::finite(row.x[0][i]);
                if (fkv::finite(row.x[0][i])) size[i] = fmaxf(size[i], fabsf(row.x[0][i]));
            }
        });
        each([&](uint32_t, const fkv::WarpRow<1> &row) {
#pragma unroll
            for (int i = 0; i < fkv::UNIT; i++) {
                const float x = fkv::saturated(row.x[0][i], size[i]);
                low[i] = fminf(low[i], x), high[i] = fmaxf(high[i], x);
            }
        });
        const uint32_t lane = threadIdx.x % 32;
        const bool mine = lane * fkv::UNIT < to.dim;
        uint32_t *words = to.scales + (block.block * to.heads + head) * to.dim + lane * fkv::UNIT;
        fkv::Scale scales[fkv::UNIT];
        bool all = true;
#pragma unroll
        for (int i = 0; i < fkv::UNIT; i++) {
            const uint32_t word = good[i] || saturate ? to.type.word(low[i], high[i]) : to.type.no_number();
            all = all && (good[i] || saturate);
            scales[i] = to.type.scale(word);
            if (mine) words[i] = word;
        }
        each([&](uint32_t token, const fkv::WarpRow<1> &row) {
            uint32_t codes[fkv::UNIT];
#pragma unroll
            for (int i = 0; i < fkv::UNIT; i++) codes[i] = to.type.code(fkv::saturated(row.x[0][i], size[i]), scales[i]);
            const int64_t at = fkv::row_at({block.block, token}, to.heads, head, to.block_size);
            if (mine) fkv::store_codes(to.unit(at, lane), codes, true);
        });
        return __all_sync(fkv::FULL, all);
    }
};

// each_part gives f the blocks of every pair, head by head, in so many parts of a head.
template <class Args, class F> __device__ inline void each_part(const uint32_t *pairs, const Args &args, uint32_t parts, F f) {
    for (uint64_t i = blockIdx.x; i < args.pairs; i += gridDim.x) {
        const uint64_t from = pairs[2 * i], to = pairs[2 * i + 1];
        if (from >= args.from_blocks || to >= args.to_blocks) continue;
        for (uint64_t n = blockIdx.y * WARPS + threadIdx.x / 32; n < uint64_t(args.kv_heads) * parts; n += gridDim.y * WARPS) {
            f(from, to, uint32_t(n / parts), uint32_t(n % parts));
        }
    }
}

template <int DECKS, class T>
__device__ inline void pack_blocks(const T *from, const fkv::Packed &to, const uint32_t *pairs, uint32_t *status,
                                   const fkv_pack_blocks_args &args) {
    const bool turned = args.flags & FKV_HADAMARD, saturate = args.flags & FKV_SATURATE, channels = DECKS == 1 && to.type.channels();
    each_part(pairs, args, channels ? 1 : args.block_size, [&](uint64_t source, uint64_t block, uint32_t head, uint32_t token) {
        const T *rows = from + fkv::row_at({source, token}, args.kv_heads, head, args.block_size) * args.dim;
        bool good;
        if (channels) {
            good = Channels<T>{rows, to, {block, 0}, head, turned, saturate}.pack();
        } else {
            fkv::WarpRow<DECKS> row(args.dim);
            row.load(rows);
            if (turned) row.hadamard();
            good = row.pack(to, {block, token}, head, saturate);
        }
        if (!good && threadIdx.x % 32 == 0) atomicOr(status, args.of);
    });
}

template <int DECKS, class T>
__device__ inline void unpack_blocks(const fkv::Packed &from, T *to, const uint32_t *pairs, const fkv_unpack_blocks_args &args) {
    each_part(pairs, args, args.block_size, [&](uint64_t source, uint64_t block, uint32_t head, uint32_t token) {
        fkv::WarpRow<DECKS> row(args.dim);
        row.unpack(from, {source, token}, head);
        if (args.flags & FKV_HADAMARD) row.hadamard();
        row.store(to + fkv::row_at({block, token}, args.kv_heads, head, args.block_size) * args.dim);
    });
}

} // namespace

// A warp has a row at a time, or all rows of a head and block where channels share words.
//
// Grid: x over pairs; y over the rows of a block, kv_heads*block_size, 4 a block of the grid.
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
