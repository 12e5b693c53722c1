// Rotate of keys that are quantized or turned by the Walsh-Hadamard matrix: decoded, turned to other
// positions and stored anew, in place.
#include "warp_row.cuh"

namespace {

constexpr unsigned WARPS = 4, THREADS = 32 * WARPS, ROOM = WARPS * fkv::MOST_DIM * sizeof(float);

// rotate gives a head of a slot to a warp, or two short ones. A key that moves by nothing keeps its bits; one whose
// distance the table does not reach stays as well.
template <int DECKS>
__device__ inline void rotate(unsigned char *k, uint32_t *scales, const int64_t *slots, const int32_t *deltas, const float *rope,
                              const fkv_rotate_quant_args &args) {
    FKV_SHARED(shared);
    const uint32_t width = DECKS == 1 ? fkv::width_of(args.k_dim) : 32, once = 32 / width; // heads at once
    const uint32_t warp = threadIdx.x / 32, mine = threadIdx.x % 32 / width;
    float *room = reinterpret_cast<float *>(shared) + warp * fkv::MOST_DIM + mine * width * fkv::UNIT;
    const fkv::Packed keys{k, scales, {args.storage}, args.kv_heads, args.block_size, args.k_dim};
    const float most = args.storage & FKV_F16 ? fkv::MOST_OF<fkv::half> : args.storage & FKV_BF16 ? fkv::MOST_OF<fkv::bfloat> : fkv::MOST;
    for (int64_t i = blockIdx.x; i < args.n; i += gridDim.x) {
        const int64_t slot = slots[i];
        const int32_t delta = deltas[i];
        const uint32_t distance = delta < 0 ? 0u - static_cast<uint32_t>(delta) : static_cast<uint32_t>(delta);
        if (!fkv::in_cache(slot, args.slots) || distance == 0 || distance >= args.rope_positions) continue;
        const float *angles = rope + static_cast<int64_t>(distance) * args.rope_dims;
        const fkv::Turn turn{angles, args.rope_dims / 2, (args.flags & FKV_INTERLEAVED) != 0, delta < 0 ? -1.0f : 1.0f, 1};
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        for (uint32_t first = (blockIdx.y * WARPS + warp) * once; first < args.kv_heads; first += gridDim.y * WARPS * once) {
            const uint32_t head = min(first + mine, args.kv_heads - 1);
            fkv::WarpRow<DECKS> row(args.k_dim, width, first + mine < args.kv_heads);
            row.unpack(keys, place, head);
            if (args.flags & FKV_HADAMARD) row.hadamard();
            row.turn(turn, room);
            if (args.flags & FKV_HADAMARD) row.hadamard();
            row.bound(most); // where the rotation has left the range
            row.pack(keys, place, head, false);
        }
    }
}

} // namespace

// Grid: x over slots, y over KV heads, 4 a block, or 8 short ones. Any grid is right. Keys are as in append_quant.
#define ROTATE_QUANT(name, DECKS)                                                                                    \
    FKV_KERNEL(fkv_rotate_quant##name, THREADS, ROOM, unsigned char *k, uint32_t *scales, const int64_t *slots,      \
               const int32_t *deltas, const float *rope, fkv_rotate_quant_args args) {                               \
        rotate<DECKS>(k, scales, slots, deltas, rope, args);                                                         \
    }

ROTATE_QUANT(, 1)
ROTATE_QUANT(_long, fkv::LONG)
