// Gather of a plane that is quantized or turned: the tokens of one sequence as f32 [kv_heads, len, dim].
#include "warp_row.cuh"

namespace {

constexpr unsigned WARPS = 4, THREADS = 32 * WARPS;
constexpr int64_t TOKENS = 32; // of one head that a block decodes at a time

} // namespace

// A warp has a token of a head at a time. A token whose block is none of the cache's is left
// out.
//
// Grid: x over tiles of 32 tokens, y over KV heads; any grid is right. The plane is as in
// append_quant.
FKV_KERNEL(fkv_gather_quant, THREADS, 0, unsigned char *cache, uint32_t *scales, const uint32_t *table, float *out,
           fkv_gather_quant_args args) {
    const fkv::Packed plane{cache, scales, {args.storage}, args.kv_heads, args.block_size, args.row};
    for (uint32_t head = blockIdx.y; head < args.kv_heads; head += gridDim.y) {
        for (int64_t first = blockIdx.x * TOKENS; first < args.len; first += gridDim.x * TOKENS) {
            const int64_t end = min(first + TOKENS, args.len);
            for (int64_t token = first + threadIdx.x / 32; token < end; token += WARPS) {
                fkv::Place place = fkv::place_of(args.begin + token, args.block_size);
                place.block = table != nullptr ? table[place.block] : args.block;
                if (place.block >= args.blocks) continue;
                fkv::WarpRow<fkv::LONG> row(args.row);
                row.unpack(plane, place, head);
                if (args.flags & FKV_HADAMARD) row.hadamard();
                row.dim = args.dim;
                row.store(out + (head * args.len + token) * args.dim);
            }
        }
    }
}
