// Rotate: keys in the cache are turned to other positions, in place (K-shift).
#include "plane.h"
#include "rope.h"

namespace {

constant constexpr uint THREADS = 128;

// turn_keys turns W pairs of a head at a time. A key that moves by nothing keeps its bits;
// one whose distance the table does not reach stays as well.
template <int W, class KV>
inline void turn_keys(device KV *k, const device int64_t *slots, const device int32_t *deltas, const device float *rope,
                   constant fkv_rotate_args &args, fkv::Here here) {
    const uint32_t pairs = args.rope_dims / 2, units = pairs / W, end = args.kv_heads * units;
    const bool interleaved = args.flags & FKV_INTERLEAVED;
    for (int64_t i = here.group.x; i < args.n; i += here.groups.x) {
        const int64_t slot = slots[i];
        const int32_t delta = deltas[i];
        const uint32_t distance = delta < 0 ? 0u - static_cast<uint32_t>(delta) : static_cast<uint32_t>(delta);
        if (!fkv::in_cache(slot, args.slots) || distance == 0 || distance >= args.rope_positions) {
            continue;
        }
        const device float *angles = rope + static_cast<int64_t>(distance) * args.rope_dims;
        const fkv::Turn turn{angles, pairs, interleaved, delta < 0 ? -1.0f : 1.0f, 1};
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        for (uint32_t unit = here.group.y * THREADS + here.index; unit < end; unit += here.groups.y * THREADS) {
            device KV *row = k + args.rope_at;
            row += fkv::row_at(place, args.kv_heads, unit / units, args.block_size) * args.k_dim;
            fkv::turn_unit<W, true>(turn, unit % units, row, row);
        }
    }
}

} // namespace

// Grid: x over slots, y over the units of a slot, 128 a threadgroup. A slot has
// kv_heads*rope_dims/2/W of them; W is the elements in 16 bytes. Any grid is right.
// Without wide, which asks that keys and table are aligned to 16 bytes and that W divides
// the dim, the element from which on it rotates and the pairs, W is 1.
[[max_total_threads_per_threadgroup(THREADS)]] kernel void
FKV_NAME(device FKV_IN *k [[buffer(FKV_ROTATE_K)]],
         const device int64_t *slots [[buffer(FKV_ROTATE_SLOTS)]],
         const device int32_t *deltas [[buffer(FKV_ROTATE_DELTAS)]],
         const device float *rope [[buffer(FKV_ROTATE_ROPE)]],
         constant fkv_rotate_args &args [[buffer(FKV_ROTATE_BUFFERS)]],
         FKV_BUILTINS) {
    if (wide) {
        turn_keys<fkv::run_width<FKV_IN, FKV_IN>()>(k, slots, deltas, rope, args, FKV_HERE);
    } else {
        turn_keys<1>(k, slots, deltas, rope, args, FKV_HERE);
    }
}
