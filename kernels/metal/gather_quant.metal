// Gather of a plane that is quantized or turned: the values of one sequence, wherever its blocks lie, become
// f32 [kv_heads, len, dim].
#include "octets.h"

namespace {

constant constexpr uint THREADS = 128;
constant constexpr uint SIMDGROUPS = THREADS / fkv::LANES;
constant constexpr int64_t TOKENS = 32; // of one head that a threadgroup reads at a time

} // namespace

// Grid: x over tiles of 32 tokens, y over KV heads; any grid is right. A token whose block is
// none of the cache's is left out. With wide, OUT is aligned to 16 bytes.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
fkv_gather_quant(const device uint *cache [[buffer(FKV_GATHER_QUANT_CACHE)]],
                 const device uint *scales [[buffer(FKV_GATHER_QUANT_SCALES)]],
                 const device uint32_t *table [[buffer(FKV_GATHER_QUANT_TABLE), function_constant(with_table)]],
                 device float *out [[buffer(FKV_GATHER_QUANT_OUT)]],
                 constant fkv_gather_quant_args &args [[buffer(FKV_GATHER_QUANT_BUFFERS)]],
                 FKV_BUILTINS) {
    const fkv::Here here = FKV_HERE;
    const fkv::Seat seat(args.row, here.lane);
    const bool turned = args.flags & FKV_HADAMARD;
    for (uint32_t head = here.group.y; head < args.kv_heads; head += here.groups.y) {
        const fkv::Codes<const uint> codes(cache, scales, args.storage, args.row, head, args.kv_heads);
        for (int64_t first = here.group.x * TOKENS; first < args.len; first += here.groups.x * TOKENS) {
            for (uint at = here.simdgroup * seat.rows; at < uint(TOKENS); at += SIMDGROUPS * seat.rows) {
                const int64_t token = first + at + seat.row;
                const bool there = token < args.len;
                fkv::Place place = fkv::place_of(args.begin + token, args.block_size);
                uint32_t block = args.block;
                if (with_table) {
                    block = there ? table[place.block] : 0;
                }
                const bool known = there && block < args.blocks;
                place.block = block;
                const int64_t line = static_cast<int64_t>(place.block) * args.kv_heads + head;
                const int64_t row = fkv::row_at(place, args.kv_heads, head, args.block_size);
                for (uint deck = 0; deck * fkv::MOST_DIM < args.dim; deck++) { // one, if they are turned
                    const uint octet = seat.octet + deck * fkv::LANES, dim = octet * fkv::OCTET;
                    const bool wanted = known && dim < args.dim;
                    float x[fkv::OCTET] = {};
                    if (wanted) fkv::get_octet(x, codes, row, line, octet);
                    if (turned) fkv::hadamard(x, args.row, here.lane);
                    if (wanted) fkv::store_octet(out + (head * args.len + token) * args.dim + dim, x, wide);
                }
            }
        }
    }
}
