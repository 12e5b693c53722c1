// Rotate of keys that are quantized or turned by the Walsh-Hadamard matrix: they become values, are
// turned, and are stored anew.
#include "octets.h"

namespace {

constant constexpr uint THREADS = 128;
constant constexpr uint SIMDGROUPS = THREADS / fkv::LANES;

} // namespace

// Grid: x over slots, y over the rows of a slot, of which a simdgroup has one to four at a
// time, and a threadgroup four simdgroups. Any grid is right. A key that moves by nothing
// keeps its codes; one whose distance the table does not reach stays as well.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
FKV_NAME(device uint *k [[buffer(FKV_ROTATE_QUANT_K)]],
         device uint *scales [[buffer(FKV_ROTATE_QUANT_SCALES)]],
         const device int64_t *slots [[buffer(FKV_ROTATE_QUANT_SLOTS)]],
         const device int32_t *deltas [[buffer(FKV_ROTATE_QUANT_DELTAS)]],
         const device float *rope [[buffer(FKV_ROTATE_QUANT_ROPE)]],
         constant fkv_rotate_quant_args &args [[buffer(FKV_ROTATE_QUANT_BUFFERS)]],
         FKV_BUILTINS) {
    threadgroup float rows[SIMDGROUPS * fkv::MOST_DIM];
    const fkv::Here here = FKV_HERE;
    const fkv::Seat seat(args.k_dim, here.lane);
    const bool turned = args.flags & FKV_HADAMARD, interleaved = args.flags & FKV_INTERLEAVED;
    const uint32_t units = (args.kv_heads + seat.rows - 1) / seat.rows;
    const float most = args.storage & FKV_F16 ? fkv::MOST_F16 : args.storage & FKV_BF16 ? fkv::MOST_BF16 : fkv::MOST_F32;
    for (int64_t i = here.group.x; i < args.n; i += here.groups.x) {
        const int64_t slot = slots[i];
        const int32_t delta = deltas[i];
        const uint32_t distance = delta < 0 ? 0u - static_cast<uint32_t>(delta) : static_cast<uint32_t>(delta);
        if (!fkv::in_cache(slot, args.slots) || distance == 0 || distance >= args.rope_positions) {
            continue;
        }
        const device float *angles = rope + static_cast<int64_t>(distance) * args.rope_dims;
        const fkv::Turn turn{angles, args.rope_dims / 2, interleaved, delta < 0 ? -1.0f : 1.0f, 1};
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        uint unit = here.group.y * SIMDGROUPS + here.simdgroup;
        for (; unit < units; unit += here.groups.y * SIMDGROUPS) {
            const uint32_t head = unit * seat.rows + seat.row;
            const bool there = head < args.kv_heads;
            const fkv::Codes<uint> codes(k, scales, args.storage, args.k_dim, there ? head : 0, args.kv_heads);
            const int64_t row = fkv::row_at(place, args.kv_heads, there ? head : 0, args.block_size);
            float x[fkv::DECKS][fkv::OCTET] = {};
#pragma unroll
            for (int deck = 0; deck < fkv::DECKS; deck++) {
                const fkv::Seat at = seat.in_deck(deck);
                if (there && at.taken) fkv::get_octet(x[deck], codes, row, 0, at.octet);
            }
            if (turned) fkv::hadamard(x[0], args.k_dim, here.lane);
            fkv::turn_octet(x[fkv::DECKS - 1], seat, turn, rows + here.simdgroup * fkv::MOST_DIM);
            if (turned) fkv::hadamard(x[0], args.k_dim, here.lane);
#pragma unroll
            for (int deck = 0; deck < fkv::DECKS; deck++) fkv::bound(x[deck], most); // where the rotation has left the range
            fkv::put_octets(codes, row, seat, there, x, false);
        }
    }
}
