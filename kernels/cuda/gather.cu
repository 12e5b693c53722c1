// Gather: one plane of one sequence, wherever its blocks lie, becomes [kv_heads, len, dim].
#include "plane.cuh"
#include "run.cuh"

namespace {

constexpr unsigned THREADS = 128;
constexpr int64_t TOKENS = 32; // of one head that a block copies at a time

// gather copies W elements of a row at a time. A token whose block is none of the
// cache's is left out.
template <int W, class KV, class Out>
__device__ inline void gather(const KV *__restrict__ cache, const uint32_t *__restrict__ table, Out *__restrict__ out,
                              const fkv_gather_args &args) {
    const uint32_t units = args.dim / W; // of a row
    for (uint32_t head = blockIdx.y; head < args.kv_heads; head += gridDim.y) {
        for (int64_t first = blockIdx.x * TOKENS; first < args.len; first += gridDim.x * TOKENS) {
            const uint32_t end = static_cast<uint32_t>(min(TOKENS, args.len - first)) * units;
            for (uint32_t unit = threadIdx.x; unit < end; unit += THREADS) {
                const int64_t token = first + unit / units;
                fkv::Place place = fkv::place_of(args.begin + token, args.block_size);
                const uint32_t block = table != nullptr ? table[place.block] : args.block;
                if (block < args.blocks) {
                    place.block = block;
                    const int64_t row = fkv::row_at(place, args.kv_heads, head, args.block_size);
                    const uint32_t column = unit % units * W;
                    const int64_t out_row = head * args.len + token;
                    fkv::copy_run<W>(cache + row * args.row + column, out + out_row * args.dim + column);
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
