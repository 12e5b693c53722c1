// Append to caches of quantized types, or of turned floats: new keys and values become codes, or
// floats, in their slots; keys and queries are rotated, and turned by the Walsh-Hadamard matrix,
// on the way.
#include "warp_row.cuh"

namespace {

constexpr unsigned WARPS = 4, THREADS = 32 * WARPS, ROOM = WARPS * fkv::MOST_DIM * sizeof(float);

// append gives a row to a warp, or two short ones of the same kind. The rows of a token are those of its keys, then its
// values, then its queries. k, v and q may lie in one buffer: no warp reads what another one writes.
// Of a latent cache, whose rows are long, there are no values: keys have both operands, the values first.
template <int DECKS, class Act>
__device__ inline void append(const Act *k, const Act *v, Act *q, const int64_t *slots, const uint32_t *positions, const float *rope,
                              unsigned char *kcache, unsigned char *vcache, uint32_t *kscales, uint32_t *vscales, uint32_t *status,
                              const fkv_append_quant_args &args) {
    FKV_SHARED(shared);
    constexpr bool LATENT = DECKS > 1;
    const uint32_t width = LATENT ? 32 : fkv::width_of(max(args.k_dim, args.v_dim)), once = 32 / width; // rows at once
    const uint32_t warp = threadIdx.x / 32, mine = threadIdx.x % 32 / width, keys = (args.kv_heads + once - 1) / once;
    const uint32_t values = LATENT ? 0 : keys, turns = keys + values + (args.q_heads + once - 1) / once;
    float *room = reinterpret_cast<float *>(shared) + warp * fkv::MOST_DIM + mine * width * fkv::UNIT;
    const bool saturate = args.flags & FKV_SATURATE;
    fkv::Turn turn{nullptr, args.flags & FKV_ROPE ? args.rope_dims / 2 : 0, (args.flags & FKV_INTERLEAVED) != 0, 1, args.magnitude};
    for (int64_t token = blockIdx.x; token < args.tokens; token += gridDim.x) {
        const int64_t slot = slots[token];
        const bool stored = fkv::in_cache(slot, args.slots);
        const fkv::Place place = fkv::place_of(slot, args.block_size);
        if (turn.pairs != 0) {
            turn.angles = rope + static_cast<int64_t>(min(positions[token], args.rope_positions - 1)) * args.rope_dims;
        }
        for (uint32_t i = blockIdx.y * WARPS + warp; i < turns; i += gridDim.y * WARPS) {
            const bool value = i >= keys && i < keys + values, query = i >= keys + values;
            if (!query && !stored) continue;
            const uint32_t heads = query ? args.q_heads : args.kv_heads;
            const uint32_t nth = (query ? i - keys - values : value ? i - keys : i) * once + mine;
            const int64_t head = min(nth, heads - 1);
            const uint32_t at = LATENT ? args.v_dim : 0; // of a key, where K and what rotates begin
            const Act *from = value ? v + token * args.v_stride : query ? q + token * args.q_stride : k + token * args.k_stride;
            fkv::WarpRow<DECKS> row(value ? args.v_dim : at + args.k_dim, width, nth < heads);
            if (LATENT && query) {
                row.load_deck(DECKS - 1, from + head * row.dim + at);
            } else if (LATENT) {
                const Act *latent = v + token * args.v_stride + head * args.v_dim;
#pragma unroll
                for (int deck = 0; deck < DECKS - 1; deck++) row.load_deck(deck, latent + deck * fkv::MOST_DIM);
                row.load_deck(DECKS - 1, from + head * args.k_dim);
            } else {
                row.load(from + head * row.dim);
            }
            if (!value && turn.pairs != 0) row.turn(turn, room);
            if (!LATENT && !value && (args.flags & FKV_HADAMARD)) row.hadamard();
            if (query) {
                row.store_deck(DECKS - 1, q + token * args.q_stride + head * row.dim + at);
                continue;
            }
            const fkv::Storage type{value ? args.v_storage : args.k_storage};
            const fkv::Packed plane{value ? vcache : kcache, value ? vscales : kscales, type, args.kv_heads, args.block_size, row.dim};
            if (!row.pack(plane, place, head, saturate) && row.lane == 0) atomicOr(status, value ? FKV_VALUES : FKV_KEYS);
        }
    }
}

} // namespace

// Grid: x over tokens, y over the rows of a token, 2*kv_heads + q_heads, 4 a block, or 8 short ones. Any grid is
// right. Planes are aligned to 16 bytes and dims multiples of 16 up to 256; rows of activations
// may lie anywhere.
#define APPEND_QUANT(type, Act, DECKS)                                                                               \
    FKV_KERNEL_OF(fkv_append_quant_##type, THREADS, ROOM, (DECKS == 1 ? 8 : 1), const Act *k, const Act *v, Act *q,  \
                  const int64_t *slots, const uint32_t *positions, const float *rope, unsigned char *kcache,         \
                  unsigned char *vcache, uint32_t *kscales, uint32_t *vscales, uint32_t *status,                     \
                  fkv_append_quant_args args) {                                                                      \
        append<DECKS>(k, v, q, slots, positions, rope, kcache, vcache, kscales, vscales, status, args);              \
    }

APPEND_QUANT(f16, fkv::half, 1)
APPEND_QUANT(bf16, fkv::bfloat, 1)
APPEND_QUANT(f32, float, 1)
APPEND_QUANT(long_f16, fkv::half, fkv::LONG)
APPEND_QUANT(long_bf16, fkv::bfloat, fkv::LONG)
APPEND_QUANT(long_f32, float, fkv::LONG)
