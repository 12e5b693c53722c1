// Gather: one plane of one sequence, wherever its blocks lie, becomes [kv_heads, len, dim].
#include "plane.h"
#include "run.h"

namespace {

constant constexpr uint THREADS = 128;
constant constexpr int64_t TOKENS = 32; // of one head that a threadgroup copies at a time

// gather copies W elements of a row at a time. A token whose block is none of the
// cache's is left out.
template <int W, class KV, class Out>
inline void gather(const device KV *cache, const device uint32_t *table, device Out *out,
                   constant fkv_gather_args &args, fkv::Here here) {
    const uint32_t units = args.dim / W; // of a row
    for (uint32_t head = here.group.y; head < args.kv_heads; head += here.groups.y) {
        for (int64_t first = here.group.x * TOKENS; first < args.len; first += here.groups.x * TOKENS) {
            const int64_t left = args.len - first;
            const uint32_t end = static_cast<uint32_t>(left < TOKENS ? left : TOKENS) * units;
            for (uint32_t unit = here.index; unit < end; unit += THREADS) {
                const int64_t token = first + unit / units;
                fkv::Place place = fkv::place_of(args.begin + token, args.block_size);
                uint32_t block = args.block;
                if (with_table) {
                    block = table[place.block];
                }
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

// Grid: x over tiles of 32 tokens, y over KV heads; any grid is right. Without wide, which
// asks that both sides are aligned to 16 bytes and that rows and the dim are made of whole runs,
// elements are copied one at a time.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
FKV_NAME(const device FKV_IN *cache [[buffer(FKV_GATHER_CACHE)]],
         const device uint32_t *table [[buffer(FKV_GATHER_TABLE), function_constant(with_table)]],
         device FKV_OUT *out [[buffer(FKV_GATHER_OUT)]],
         constant fkv_gather_args &args [[buffer(FKV_GATHER_BUFFERS)]],
         FKV_BUILTINS) {
    const device uint32_t *blocks = with_table ? table : nullptr;
    if (wide) {
        gather<fkv::run_width<FKV_IN, FKV_OUT>()>(cache, blocks, out, args, FKV_HERE);
    } else {
        gather<1>(cache, blocks, out, args, FKV_HERE);
    }
}
