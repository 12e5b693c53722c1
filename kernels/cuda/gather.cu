// Gather: one plane of one sequence, wherever its blocks lie, becomes [kv_heads, len, dim].
#include "plane.cuh"
#include "run.cuh"

namespace {

constexpr unsigned THREADS = 128;
constexpr int64_t TOKENS = 32; // of one head that a block copies at a time
constexpr int HELD = 4;        // units that a thread has on their way

// Tile is tokens of a sequence, from the first on, whose place is divided for all of them.
struct Tile {
    fkv::Place first;
    uint32_t block_size, left; // left is the tokens of the first's block from it on

    __device__ Tile(int64_t position, uint32_t block_size)
        : first(fkv::place_of(position, block_size)), block_size(block_size), left(block_size - static_cast<uint32_t>(first.offset)) {}

    __device__ fkv::Place place(uint32_t token) const {
        if (token < left) return {first.block, first.offset + token};
        const uint32_t behind = token - left, blocks = behind / block_size;
        return {first.block + 1 + blocks, behind - blocks * block_size};
    }
};

// gather copies W elements of a row at a time. A token whose block is none of the
// cache's is left out.
template <int W, class KV, class Out>
__device__ inline void gather(const KV *__restrict__ cache, const uint32_t *__restrict__ table, Out *__restrict__ out,
                              const fkv_gather_args &args) {
    const uint32_t units = args.dim / W; // of a row
    for (uint32_t head = blockIdx.y; head < args.kv_heads; head += gridDim.y) {
        for (int64_t first = blockIdx.x * TOKENS; first < args.len; first += gridDim.x * TOKENS) {
            const Tile tile(args.begin + first, args.block_size);
            const uint32_t end = static_cast<uint32_t>(min(TOKENS, args.len - first)) * units;
            Out *const to = out + (head * args.len + first) * args.dim;
            for (uint32_t begin = threadIdx.x; begin < end; begin += HELD * THREADS) {
                int64_t from[HELD]; // -1: nowhere
#pragma unroll
                for (int i = 0; i < HELD; i++) {
                    const uint32_t unit = min(begin + i * THREADS, end - 1), token = unit / units;
                    fkv::Place place = tile.place(token);
                    place.block = table != nullptr ? table[place.block] : args.block;
                    const int64_t row = fkv::row_at(place, args.kv_heads, head, args.block_size);
                    from[i] = place.block < args.blocks ? row * args.row + (unit - token * units) * W : -1;
                }
                fkv::Run<KV, W> held[HELD];
#pragma unroll
                for (int i = 0; i < HELD; i++) {
                    if (from[i] >= 0) held[i] = fkv::load_run<W>(cache + from[i]);
                }
#pragma unroll
                for (int i = 0; i < HELD; i++) {
                    const uint32_t unit = begin + i * THREADS;
                    if (from[i] < 0 || unit >= end) continue;
                    fkv::Run<Out, W> run;
#pragma unroll
                    for (int e = 0; e < W; e++) run.at[e] = fkv::convert<Out>(held[i].at[e]);
                    fkv::store_run(to + static_cast<int64_t>(unit) * W, run);
                }
            }
        }
    }
}

} // namespace

// Grid: x over tiles of 32 tokens, y over KV heads; any grid is right. What is not
// aligned to 16 bytes is copied an element at a time.
#define GATHER(types, KV, Out)                                                                              \
    FKV_KERNEL(fkv_gather_##types, THREADS, 0, const KV *cache, const uint32_t *table, Out *out,            \
               fkv_gather_args args) {                                                                      \
        constexpr int W = fkv::wide<KV, Out>;                                                               \
        if ((args.dim | args.row) % W == 0 && fkv::aligned(cache, out)) {                                                \
            gather<W>(cache, table, out, args);                                                             \
        } else {                                                                                            \
            gather<1>(cache, table, out, args);                                                             \
        }                                                                                                   \
    }

GATHER(f16_f16, fkv::half, fkv::half)
GATHER(bf16_bf16, fkv::bfloat, fkv::bfloat)
GATHER(f32_f32, float, float)
GATHER(f16_f32, fkv::half, float)
GATHER(bf16_f32, fkv::bfloat, float)
