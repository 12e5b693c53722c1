// Rotate: keys in the cache are turned to other positions, in place (K-shift).
#include "plane.cuh"
#include "rope.cuh"

namespace {

constexpr unsigned THREADS = 128;

// rotate turns W pairs of a head at a time. Where a slot has few of these, a block has several slots at once. A key
// that moves by nothing keeps its bits; one whose distance the table does not reach stays as well.
template <int W, class KV>
__device__ inline void rotate(KV *k, const int64_t *slots, const int32_t *deltas, const float *rope,
                              const fkv_rotate_args &args) {
    const uint32_t pairs = args.rope_dims / 2, units = pairs / W, end = args.kv_heads * units;
    const bool interleaved = args.flags & FKV_INTERLEAVED;
    const uint32_t once = max(THREADS / end, 1u), mine = once > 1 ? threadIdx.x / end : 0;
    if (mine >= once) return;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * once + mine; i < args.n; i += static_cast<int64_t>(gridDim.x) * once) {
        const int64_t slot = slots[i];
        const int32_t delta = deltas[i];
        const uint32_t distance = delta < 0 ? 0u - static_cast<uint32_t>(delta) : static_cast<uint32_t>(delta);
        if (!fkv::in_cache(slot, args.slots) || distance == 0 || distance >= args.rope_positions) {
            continue;
        }
        const float *angles = rope + static_cast<int64_t>(distance) * args.rope_dims;
        const fkv::Turn turn{angles, pairs, interleaved, delta < 0 ? -1.0f : 1.0f, 1};
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        for (uint32_t unit = blockIdx.y * THREADS + threadIdx.x - mine * end; unit < end; unit += gridDim.y * THREADS) {
            KV *row = k + fkv::row_at(place, args.kv_heads, unit / units, args.block_size) * args.k_dim + args.rope_at;
            fkv::turn_unit<W, true>(turn, unit % units, row, row);
        }
    }
}

} // namespace

// Grid: x over slots, as many a block as it has threads for, y over the units of a slot, 128 a block. A slot has
// kv_heads*rope_dims/2/W of them; W is the elements in 16 bytes. Any grid is right. Keys
// that are not aligned to 16 bytes, and pairs that are no multiple of W, go the slow
// way, a pair at a time.
#define ROTATE(type, KV)                                                                                         \
    FKV_KERNEL_OF(fkv_rotate_##type, THREADS, 0, 8, KV *k, const int64_t *slots, const int32_t *deltas,                \
               const float *rope, fkv_rotate_args args) {                                                        \
        constexpr int W = fkv::wide<KV, KV>;                                                                     \
        if ((args.k_dim | args.rope_at | (args.rope_dims / 2)) % W == 0 && fkv::aligned(k, rope)) {                             \
            rotate<W>(k, slots, deltas, rope, args);                                                             \
        } else {                                                                                                 \
            rotate<1>(k, slots, deltas, rope, args);                                                             \
        }                                                                                                        \
    }

ROTATE(f16, fkv::half)
ROTATE(bf16, fkv::bfloat)
ROTATE(f32, float)
