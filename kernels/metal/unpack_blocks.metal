// Unpack: whole blocks of a quantized plane become blocks of a plane of the activation type.
#include "octets.h"

namespace {

constant constexpr uint THREADS = 128;
constant constexpr uint SIMDGROUPS = THREADS / fkv::LANES;

} // namespace

// Grid: x over pairs, y over KV heads; any grid is right. Planes are aligned to 16 bytes.
// Pairs of blocks that are not there are skipped.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
FKV_NAME(const device uint *from [[buffer(FKV_UNPACK_BLOCKS_FROM)]],
         const device uint *scales [[buffer(FKV_UNPACK_BLOCKS_SCALES)]],
         device FKV_IN *to [[buffer(FKV_UNPACK_BLOCKS_TO)]],
         const device uint32_t *pairs [[buffer(FKV_UNPACK_BLOCKS_PAIRS)]],
         constant fkv_unpack_blocks_args &args [[buffer(FKV_UNPACK_BLOCKS_BUFFERS)]],
         FKV_BUILTINS) {
    const fkv::Here here = FKV_HERE;
    const fkv::Seat seat(args.dim, here.lane);
    for (int64_t i = here.group.x; i < args.pairs; i += here.groups.x) {
        const int64_t source = pairs[2 * i], target = pairs[2 * i + 1];
        if (source >= args.from_blocks || target >= args.to_blocks) {
            continue;
        }
        for (uint32_t head = here.group.y; head < args.kv_heads; head += here.groups.y) {
            const fkv::Codes<const uint> codes(from, scales, args.storage, args.dim, head, args.kv_heads);
            const int64_t line = source * args.kv_heads + head;
            const int64_t first = (target * args.kv_heads + head) * args.block_size;
            for (uint at = here.simdgroup * seat.rows; at < args.block_size; at += SIMDGROUPS * seat.rows) {
                const int64_t offset = at + seat.row;
#pragma unroll
                for (int deck = 0; deck < fkv::DECKS; deck++) {
                    const fkv::Seat place = seat.in_deck(deck);
                    const bool there = place.taken && offset < args.block_size;
                    const int64_t row = line * args.block_size + offset;
                    float x[fkv::OCTET] = {};
                    if (there) {
                        codes.decode(x, codes.fetch<fkv::OCTET>(row, line, place.octet), 0, place.octet);
                    }
                    if (fkv::DECKS == 1 && (args.flags & FKV_HADAMARD)) fkv::hadamard(x, args.dim, here.lane);
                    fkv::bound(x, fkv::most_of<FKV_IN>()); // a code may be worth more
                    if (there) fkv::store_octet(to + (first + offset) * args.dim + place.octet * fkv::OCTET, x, true);
                }
            }
        }
    }
}
